"""The adapter to specdec_core, over an engine whose model is a table: nothing of the adapter is replaced."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from loopeng.engines import build_engine
from loopeng.engines.model_names import with_local_paths
from loopeng.engines.specdec import SpecDecEngine, generation_request, list_models
from loopeng.errors import EngineError, RequestRefusedError
from loopeng.ports import TextEngine, TextRequest
from loopeng.schema import Message
from loopeng.schema.task import EngineSpec
from specdec_core.engine import Engine
from specdec_core.loading import LoadedModel
from specdec_core.metrics import NumericsFingerprint
from specdec_core.models.table import TableModel
from specdec_core.types import StructuredOutput

VOCAB = 20


class LetterTokenizer:
    """Token i is the i-th letter; the last token ends a text."""

    eos_token_ids = frozenset({VOCAB - 1})

    def encode(self, text: str) -> list[int]:
        return [ord(char) % VOCAB for char in text]

    def encode_chat(self, messages: Sequence[Any]) -> list[int]:
        return self.encode("".join(message["role"][0] + message["content"] for message in messages))

    def decode(self, token_ids: Sequence[int]) -> str:
        return "".join(chr(ord("a") + token_id) for token_id in token_ids)


def make(drafter: str = "auto") -> SpecDecEngine:
    fingerprint = NumericsFingerprint("bitwise", 16, 64, 64, "float64", "cpu", 1, "2", "table")
    tokenizer: Any = LetterTokenizer()
    target = TableModel.random(VOCAB, seed=3, context_length=128)
    device = torch.device("cpu")
    model = LoadedModel(target, tokenizer, fingerprint, device, torch.float64, target.geometry, ("a table",), "letters")
    return SpecDecEngine(Engine(model, drafter=drafter), reference="{}")


def ask(content: str = "hi", **changes: Any) -> TextRequest:
    return TextRequest(messages=(Message(role="user", content=content),), **({"max_tokens": 40} | changes))


def test_text_ids_usage_and_fingerprint_come_through() -> None:
    engine = make()
    reply = engine.generate(ask(temperature=1.0, seed=5))
    info = engine.describe()
    assert isinstance(engine, TextEngine)
    assert reply.text and reply.token_ids and reply.finish_reason in ("stop", "length")
    assert (reply.usage.prompt_tokens, reply.usage.generated_tokens) == (3, len(reply.token_ids))
    assert reply.usage.decode_passes > 0 and reply.latency_s > 0
    assert reply.fingerprint == info.fingerprint == engine.engine.model.fingerprint.digest
    assert (info.kind, info.model, info.deterministic, info.reference) == ("specdec", "letters", True, "{}")
    assert info.model_dump(mode="json")["details"]["reasons"] == ["a table"]


def test_references_change_the_passes_and_never_the_text() -> None:
    request = ask(temperature=1.0, seed=5, max_tokens=60)
    engine = make()
    plain = make("none").generate(request)
    helped = engine.generate(request.model_copy(update={"reference_texts": (plain.text,)}))
    assert helped.text == plain.text and helped.usage.decode_passes <= plain.usage.decode_passes
    assert engine.generate(ask(temperature=1.0, seed=6, max_tokens=60)).text != plain.text


def test_every_sampling_parameter_reaches_the_core() -> None:
    engine = make()
    whole = engine.generate(ask()).text
    assert engine.generate(ask(top_k=1, temperature=2.0)).text == whole
    assert engine.generate(ask(top_p=1e-9, temperature=2.0)).text == whole
    assert engine.generate(ask(max_tokens=3)).text == whole[:3]
    assert engine.generate(ask(stop=(whole[2:4],))).text == whole[: whole.index(whole[2:4])]
    assert engine.generate(ask(repetition_penalty=1.9, max_tokens=60)).text != engine.generate(ask(max_tokens=60)).text


def test_a_schema_reaches_the_core_and_what_cannot_be_held_is_refused_not_ignored() -> None:
    schema = {"type": "object", "properties": {"a": {"enum": ["x"]}}, "required": ["a"]}
    request = ask(response_schema=schema)
    assert generation_request(request).structured == StructuredOutput(json_schema=schema)
    assert generation_request(ask()).structured is None
    engine = make()  # whose tokenizer no grammar can be read for
    assert engine.describe().structured_output is False
    with pytest.raises(RequestRefusedError, match="structured output needs"):
        engine.generate(request)
    assert engine.generate(ask()).text


def test_a_prompt_that_is_too_long_is_refused_with_words_and_the_engine_stays_usable() -> None:
    engine = make()
    with pytest.raises(RequestRefusedError, match="the engine refused the request"):
        engine.generate(ask("x" * 500))
    assert issubclass(RequestRefusedError, EngineError)
    assert engine.generate(ask()).text


def test_out_of_memory_is_the_engines_error_and_says_what_to_lower(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = make()
    expected = engine.generate(ask())
    with monkeypatch.context() as patch:

        def full(*_: object) -> None:
            raise MemoryError

        patch.setattr(engine.engine.model.target, "decode", full)
        with pytest.raises(
            EngineError, match=r"OutOfMemoryError: out of memory while generating.*context_length"
        ) as caught:
            engine.generate(ask())
    assert not isinstance(caught.value, RequestRefusedError), "the request is not to blame"
    assert engine.generate(ask()).text == expected.text


def test_threads_take_turns() -> None:
    engine = make()
    expected, texts = engine.generate(ask()).text, []
    threads = [threading.Thread(target=lambda: texts.append(engine.generate(ask()).text)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == [expected] * 4


def test_models_beside_the_task_file_are_found_whichever_of_them_drafts(tmp_path: Path) -> None:
    """A drafting model's folder was looked for where the command was run, not where the task file is."""
    (tmp_path / "small").mkdir()
    names = {"model": "./small", "drafter": ("suffix", "model:small", "model:smollm2-135m")}
    found = with_local_paths(EngineSpec(**names), tmp_path)
    assert found.model == str(tmp_path / "small")
    assert found.drafter == ("suffix", f"model:{tmp_path / 'small'}", "model:smollm2-135m")
    assert with_local_paths(EngineSpec(drafter="model:small"), tmp_path).drafter == f"model:{tmp_path / 'small'}"
    assert with_local_paths(EngineSpec(), tmp_path) == EngineSpec()


def test_the_context_length_of_a_task_reaches_the_model(embedded_folder) -> None:
    engine = SpecDecEngine.from_spec(EngineSpec(drafter="none", exactness="law", context_length=48))
    assert engine.describe().details["context_length"] == 48
    with pytest.raises(RequestRefusedError, match="larger context_length"):
        engine.generate(ask("word " * 60))
    assert engine.generate(ask("hi", max_tokens=2)).text


def test_a_model_that_cannot_be_loaded_is_an_engine_error(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for model in ("empty", str(tmp_path / "no" / "such" / "folder")):
        with pytest.raises(EngineError, match=f"the model '{model}' cannot be loaded: "):
            build_engine(EngineSpec(model=model), tmp_path)


def test_models_are_listed_without_loading_any(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECDEC_CACHE", str(tmp_path))
    (choice,) = list_models()
    assert (choice.name, choice.kind, choice.path) == ("smollm2-135m", "embedded", None)
    folder = tmp_path / "models" / "gguf-abc"
    folder.mkdir(parents=True)
    (folder / "specdec.json").write_text('{"weight_bytes": {}}')
    (tmp_path / "models" / "unfinished").mkdir()
    assert [each.name for each in list_models()] == ["smollm2-135m", str(folder)]


def test_neither_listing_models_nor_a_runner_loads_torch() -> None:
    code = (
        "import sys, loopeng.runner, loopeng.engines.specdec as e; e.list_models(); "
        "sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[3], check=False).returncode == 0
