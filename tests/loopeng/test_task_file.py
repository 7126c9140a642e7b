"""load_task: good tasks come out whole, and every mistake is one TaskError with its place and a way out."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loopeng.errors import TaskError
from loopeng.schema import Task
from loopeng.task_checks import DRAFTER_NAMES
from loopeng.task_file import load_task, task_from_dict
from tests.loopeng.task_texts import DATA, GOOD, write


def test_a_good_task_comes_out_whole(tmp_path: Path) -> None:
    task = load_task(write(tmp_path))
    assert isinstance(task, Task)
    assert task.template.startswith("Write briefly.\n\nDescribe {{ product }}")
    assert [sample.id for sample in task.samples] == ["a", "b", "c"]
    assert [sample.split for sample in task.samples] == ["gate", "reflect", "holdout"]
    assert task.samples[0].inputs == {"id": "a", "product": "mug"}  # neither target nor split
    assert task.samples[0].target == "m"
    assert task.path == (tmp_path / "task.yaml").resolve()
    assert task.agent.kind == "llm"
    assert task.evaluators[1].params == {"max_words": 25}
    assert [task.temperature(index) for index in range(4)] == [0, 0.4, 0.8, 0.8]
    assert load_task(tmp_path) == task


def test_the_same_task_in_another_folder_has_the_same_hash(tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    first, second = (load_task(write(folder)) for folder in folders)
    assert first.version_hash == second.version_hash
    changed = load_task(write(folders[1], data=DATA.replace("mug", "cup")))
    assert changed.version_hash != first.version_hash


def test_windows_newlines_and_byte_order_marks_change_nothing(tmp_path: Path) -> None:
    plain = load_task(write(tmp_path))
    for name, text in (("task.yaml", GOOD), ("products.jsonl", DATA)):
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    assert load_task(tmp_path / "task.yaml") == plain


def test_yaml_is_1_2(tmp_path: Path) -> None:
    text = GOOD.replace("name: shop", "name: on").replace("max_tokens: 64", "max_tokens: 0x40")
    task = load_task(write(tmp_path, text))
    assert task.name == "on"
    assert task.engine.max_tokens == 64


@pytest.mark.parametrize(
    ("agent", "kind"),
    [("llm", "llm"), ('{python: "json:dumps", replayable: true}', "python"), ("{kind: llm}", "llm")],
)
def test_short_forms_of_agents(agent: str, kind: str, tmp_path: Path) -> None:
    assert load_task(write(tmp_path, GOOD.replace("agent: llm", f"agent: {agent}"))).agent.kind == kind


def test_code_beside_the_task_file_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "checks_beside.py").write_text("def polite(text, *, word):\n    return word in text\n")
    line = '{id: one, type: python, function: "checks_beside:polite", args: {word: please}}'
    task = load_task(write(tmp_path, GOOD.replace("{id: one, type: sentences, max: 1}", line)))
    assert task.evaluators[0].type == "python"


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import no_such_thing_here", "needs 'no_such_thing_here', which is not installed"),
        ("1 / 0", "cannot be imported: ZeroDivisionError"),
        ("raise SystemExit(3)", "cannot be imported: SystemExit"),
        ("def", "cannot be imported: SyntaxError"),
        ("async def run(text): ...", "is async"),
    ],
)
def test_code_that_breaks_is_a_task_error(
    code: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    name = f"broken_{abs(hash(code))}"
    (tmp_path / f"{name}.py").write_text(code + "\n")
    line = f'{{id: one, type: python, function: "{name}:run"}}'
    with pytest.raises(TaskError, match=says):
        load_task(write(tmp_path, GOOD.replace("{id: one, type: sentences, max: 1}", line)))


def test_two_modules_of_one_name_are_not_mixed_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    line = '{id: one, type: python, function: "twin_checks:run"}'
    text = GOOD.replace("{id: one, type: sentences, max: 1}", line)
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "twin_checks.py").write_text("def run(text):\n    return True\n")
        write(tmp_path / folder, text)
    load_task(tmp_path / "one")
    with pytest.raises(TaskError, match="another module 'twin_checks' is in use"):
        load_task(tmp_path / "two")


def test_files_that_are_not_there_or_not_text(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="no such file"):
        load_task(tmp_path / "nothing.yaml")
    with pytest.raises(TaskError, match="no such file"):
        load_task(tmp_path)
    path = tmp_path / "task.yaml"
    path.write_bytes(b"version: 1\nname: caf\xe9\n")
    with pytest.raises(TaskError, match="not UTF-8") as caught:
        load_task(path)
    assert caught.value.line == 2
    path.write_bytes(b"version: 1\nname: a\x00b\n")
    with pytest.raises(TaskError, match="not YAML"):
        load_task(path)
    path.write_text("a: " + "[" * 600)
    with pytest.raises(TaskError):
        load_task(path)


def test_aliases_cannot_blow_up(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40)]
    with pytest.raises(TaskError, match="too large"):
        load_task(write(tmp_path, "\n".join(lines)))
    with pytest.raises(TaskError, match="what it stands in"):
        load_task(write(tmp_path, "a: &a [*a]"))


def test_the_first_of_several_mistakes_is_named(tmp_path: Path) -> None:
    text = GOOD.replace("retry: escalate", "retry: nope").replace("drafter: auto", "draftr: auto")
    with pytest.raises(TaskError, match="draftr"):
        load_task(write(tmp_path, text))


def test_a_template_in_a_file(tmp_path: Path) -> None:
    inline = GOOD[GOOD.index("  template") : GOOD.index("dataset")]
    path = write(tmp_path, GOOD.replace(inline, "  file: describe.md\n"))
    (tmp_path / "describe.md").write_bytes(b"Describe {{ product }}\r\n{{ rules }}\r\n")
    assert load_task(path).template == "Describe {{ product }}\n{{ rules }}\n"
    (tmp_path / "describe.md").write_text("Describe\n{{ product }\n{{ rules }}")
    with pytest.raises(TaskError, match="cannot be read") as caught:
        load_task(path)
    assert (caught.value.file, caught.value.line) == (str(tmp_path / "describe.md"), 2)
    (tmp_path / "describe.md").write_text("Describe\n\n{{ produkt }}\n{{ rules }}")
    with pytest.raises(TaskError, match=r"uses {{ produkt }}, but no sample") as caught:
        load_task(path)
    assert (caught.value.file, caught.value.line) == (str(tmp_path / "describe.md"), 3)


@pytest.mark.parametrize(
    "style", ['"Describe\\n\\n{{ produkt }}{{ rules }}"', ">\n    Describe\n\n    {{ produkt }}{{ rules }}\n"]
)
def test_where_yaml_folds_the_template_its_key_is_the_place(style: str, tmp_path: Path) -> None:
    """The lines of such a text are not those of the file: counting them would point at something else."""
    inline = GOOD[GOOD.index("  template") : GOOD.index("dataset")]
    text = GOOD.replace(inline, f"  template: {style}\n")
    with pytest.raises(TaskError, match="produkt") as caught:
        load_task(write(tmp_path, text))
    assert caught.value.line == text[: text.index("template:")].count("\n") + 1


def test_rules_may_be_missing_where_nothing_is_learned(tmp_path: Path) -> None:
    text = GOOD.replace("{{ rules }}", "").replace("enabled: true", "enabled: false")
    assert "rules" not in load_task(write(tmp_path, text)).template


def test_an_evaluator_may_use_the_target_only_where_there_is_one(tmp_path: Path) -> None:
    text = GOOD.replace('value: "{{ product }}"', 'value: "{{ target }}"')
    assert load_task(write(tmp_path, text)).samples[0].target == "m"
    with pytest.raises(TaskError, match="names no target") as caught:
        load_task(write(tmp_path, text.replace(", target: answer", "")))
    assert caught.value.line == 20


def test_weights_must_weigh_something(tmp_path: Path) -> None:
    """In any mode: evaluators of weight 0 only watch."""
    text = GOOD.replace("type:", "weight: 0, type:")
    text = text.replace("    weight: 0, type: length", "    weight: 0\n    type: length")
    for mode in ("all", "weighted"):
        with pytest.raises(TaskError, match="every evaluator weighs 0"):
            load_task(write(tmp_path, text.replace("mode: all", f"mode: {mode}")))


KEYS = {
    "version": 1,
    "name": "inline",
    "prompt": {"name": "p", "template": "Say {{ word }}{{ rules }}"},
    "dataset": {"samples": [{"word": "hello"}, {"word": "bye"}]},
    "evaluators": [{"id": "says", "type": "contains", "value": "{{ word }}"}],
}


def test_a_task_from_keys() -> None:
    task = task_from_dict(KEYS)
    assert task.path is None
    assert len({sample.id for sample in task.samples}) == 2
    assert Task.model_validate_json(task.model_dump_json(by_alias=True)) == task


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"nme": 1}, "unknown key 'nme'"),
        ({"dataset": {"samples": []}}, "dataset is empty"),
        ({"dataset": {"samples": [{"word": "a"}, {"word": "a"}]}}, "twice"),
        ({"dataset": {"samples": ["a"]}}, r"dataset\.samples\[0\] must be a mapping"),
        ({"name": object()}, "plain data"),
        ({"evaluators": "all"}, "evaluators must be a list"),
    ],
)
def test_mistakes_in_keys(change: dict[str, object], says: str) -> None:
    with pytest.raises(TaskError, match=says) as caught:
        task_from_dict(KEYS | change)
    assert caught.value.file is None


def test_inline_samples_know_their_lines(tmp_path: Path) -> None:
    dataset = "dataset:\n  id: id\n  samples:\n    - {id: a, product: mug}\n    - {id: b, prodct: lamp}\n"
    text = GOOD.replace(GOOD[GOOD.index("dataset:") : GOOD.index("agent:")], dataset)
    with pytest.raises(TaskError, match="no field 'product'") as caught:
        load_task(write(tmp_path, text))
    assert caught.value.line == text[: text.index("id: b")].count("\n") + 1
    assert caught.value.file == str(tmp_path / "task.yaml")


def test_drafter_names_are_those_of_the_core() -> None:
    registry = pytest.importorskip("specdec_core.drafters.registry")
    assert set(DRAFTER_NAMES) == set(registry.DRAFTERS)


PIECES = [
    "\t",
    "\n",
    "{",
    "}",
    "[",
    ":",
    "- ",
    "&a ",
    "*a",
    "!x ",
    "'",
    '"',
    "#",
    "{{",
    "{%",
    "|",
    "\0",
    "<<: ",
    "0x",
    "---\n",
]


EDITS = st.lists(st.tuples(st.integers(0, len(GOOD)), st.integers(0, 9), st.sampled_from(PIECES)), max_size=3)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=EDITS)
def test_whatever_is_typed_there_is_no_traceback(edits: list[tuple[int, int, str]], tmp_path: Path) -> None:
    text = GOOD
    for start, num_removed, piece in edits:
        text = text[:start] + piece + text[start + num_removed :]
    with suppress(TaskError):
        load_task(write(tmp_path, text))


def test_what_a_task_hashes_is_the_retry_that_it_makes(tmp_path: Path) -> None:
    """With another default it would be another task; naming today's is none."""
    unset = load_task(write(tmp_path, GOOD.replace("  retry: escalate\n", "")))
    same, other = (load_task(write(tmp_path, GOOD.replace("escalate", retry))) for retry in (unset.retry, "feedback"))
    assert unset.loop.retry is None and same.loop.retry == "critique"
    assert same.version_hash == unset.version_hash != other.version_hash


def test_a_cold_resample_by_default_is_refused_by_that_name(tmp_path: Path) -> None:
    start, end = GOOD.index("evaluators:"), GOOD.index("pass:")
    tests = 'evaluators: [{id: tests, type: unit_tests, tests: "assert f() == 1", entry_point: f}]\n'
    rest = GOOD[end:].replace("  retry: escalate\n  temperatures: [0, 0.4, 0.8]", "  temperatures: [0]")
    with pytest.raises(TaskError, match=r"a resample \(the retry where unit_tests alone decide\) at temperature 0"):
        load_task(write(tmp_path, GOOD[:start] + tests + rest))
