"""The deterministic engine: rules, lists picked by seed, errors and delays on request, mistakes with file and line."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from loopeng.engines import build_engine
from loopeng.engines.scripted import Script, ScriptedEngine, ScriptedReply
from loopeng.errors import EngineError, TaskError
from loopeng.ports import TextEngine, TextRequest
from loopeng.schema import Message
from loopeng.schema.task import EngineSpec

SCRIPT = """
replies:
  - {when: "mug.*twenty", say: "A short mug."}
  - {when: "mug", say: [red, green, blue]}
  - {when: "teapot", error: "out of steam"}
default: "I do not know."
"""


def ask(*turns: str, seed: int = 0) -> TextRequest:
    roles = ("user", "assistant")
    messages = tuple(Message(role=roles[i % 2], content=text) for i, text in enumerate(turns))  # type: ignore[arg-type]
    return TextRequest(messages=messages, seed=seed)


def engine_of(folder: Path, text: str, name: str = "script.yaml") -> TextEngine:
    (folder / name).write_text(text, encoding="utf-8")
    return build_engine(EngineSpec(kind="scripted", script=name), folder)


def test_the_first_rule_found_anywhere_in_the_conversation_answers(tmp_path: Path) -> None:
    engine = engine_of(tmp_path, SCRIPT)
    assert engine.generate(ask("a mug", "long", "use\ntwenty words")).text == "A short mug."
    assert [engine.generate(ask("a mug", seed=seed)).text for seed in (0, 1, 2, 3, 2)] == [
        "red",
        "green",
        "blue",
        "red",
        "blue",
    ]
    assert engine.generate(ask("a hat")).text == "I do not know."
    with pytest.raises(EngineError, match="out of steam"):
        engine.generate(ask("a teapot"))


def test_usage_counts_words_and_the_answer_never_depends_on_references(tmp_path: Path) -> None:
    engine = engine_of(tmp_path, SCRIPT)
    request = ask("a hat please")
    reply = engine.generate(request)
    assert (reply.usage.prompt_tokens, reply.usage.generated_tokens, reply.finish_reason) == (3, 4, "stop")
    assert engine.generate(request.model_copy(update={"reference_texts": ("mug",)})).text == reply.text


def test_another_process_makes_it_again(tmp_path: Path) -> None:
    engine = engine_of(tmp_path, SCRIPT)
    info = engine.describe()
    again = build_engine(EngineSpec.model_validate_json(info.reference or ""))
    assert info.deterministic and info.kind == "scripted"
    assert again.describe() == info and again.generate(ask("a hat")).text == "I do not know."
    other = engine_of(tmp_path, "default: x", "other.yaml").describe()
    assert other.fingerprint != info.fingerprint


def test_a_script_may_be_a_list_json_or_a_function(tmp_path: Path) -> None:
    assert engine_of(tmp_path, "- {when: x, say: y}").generate(ask("x")).text == "y"
    assert engine_of(tmp_path, '{"default": "z"}', "s.json").generate(ask("x")).text == "z"
    (tmp_path / "my_script_functions.py").write_text(
        "def answer(request):\n    return request.messages[-1].content[::-1]\n"
    )
    engine = build_engine(EngineSpec(kind="scripted", script="my_script_functions:answer"), tmp_path)
    assert engine.generate(ask("abc")).text == "cba"
    assert ScriptedEngine(lambda request: "w").describe().reference is None


def test_delays(tmp_path: Path) -> None:
    engine = ScriptedEngine(Script(replies=(ScriptedReply(when="x", say="y", delay_s=0.02),), delay_s=0.02))
    started = time.perf_counter()
    reply = engine.generate(ask("x"))
    assert time.perf_counter() - started >= 0.04 and reply.latency_s >= 0.04
    with pytest.raises(EngineError, match="no reply to 'user: q'"):
        engine.generate(ask("q"))


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("replies:\n  - {when: x, says: y}", 2, "did you mean 'say'"),
        ("replies:\n  - {when: x}", 2, "exactly one of 'say' and 'error'"),
        ("replies:\n  - {when: x, say: []}", 2, "exactly one of 'say' and 'error'"),
        ("replies:\n  - when: '('\n    say: y", 2, "not a regular expression"),
        ("delay_s: -1", 1, "at least 0"),
    ],
)
def test_a_mistake_names_file_and_line(tmp_path: Path, text: str, line: int, words: str) -> None:
    with pytest.raises(TaskError) as caught:
        engine_of(tmp_path, text)
    assert words in str(caught.value) and caught.value.line == line and "script.yaml" in str(caught.value)


def test_a_missing_script() -> None:
    with pytest.raises(TaskError, match="needs 'script'"):
        build_engine(EngineSpec(kind="scripted"))
    with pytest.raises(TaskError, match="no such file"):
        build_engine(EngineSpec(kind="scripted", script="nowhere.yaml"))
    with pytest.raises(TaskError, match="no_such_module"):
        build_engine(EngineSpec(kind="scripted", script="no_such_module:f"))


def test_two_functions_are_two_engines() -> None:
    """A resumed run tells by the fingerprint that it met another engine."""
    fingerprints = {ScriptedEngine(each).describe().fingerprint for each in (ask_back, agree)}
    assert len(fingerprints) == 2 and ScriptedEngine(agree).describe().fingerprint in fingerprints


def ask_back(request: TextRequest) -> str:
    return "Why?"


def agree(request: TextRequest) -> str:
    return "Yes."


def test_what_a_function_answers_may_differ_each_time() -> None:
    """Called deterministic, a random one passes for an engine whose answers need no A/A check."""
    assert not ScriptedEngine(lambda request: request.messages[0].content).describe().deterministic
