"""The bench of decoding: its data, its arithmetic, its arms on tiny models, and what it does when it is killed."""

from __future__ import annotations

import ast
import json
import statistics
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from evals.bench import decode
from evals.bench.checkpoint import CheckpointError, checkpoint, read_checkpoint
from evals.bench.decode_data import EDITS, FAILURES, edit_text, read_jsonl, retry_items, work_items
from evals.bench.decode_humaneval import code_of, why_it_fails
from evals.bench.decode_options import DEFAULT_SIZE, FULL_SIZE, DataMissingError, data_folder
from evals.bench.decode_rows import KEY, Measured, Row
from evals.bench.decode_summary import summarise, unequal_texts
from evals.bench.timing import Timing, bootstrap, median_ratio

PROBLEM = {
    "task_id": "Own/0",
    "prompt": 'def double(value: int) -> int:\n    """Twice the value."""\n',
    "entry_point": "double",
    "test": "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(3) == 6\n",
}
RIGHT = "Here it is.\n```python\ndef double(value):\n    return 2 * value\n```\nThat was it."
WRONG = "```python\ndef double(value):\n    return value ** 2\n```"


def row(arm: str, item: str = "humaneval/1", *, time_s: float = 2.0, ids: list[int] | None = None, **more: Any) -> Row:
    token_ids = list(range(11)) if ids is None else ids
    fields = {"part": "humaneval", "category": "humaneval", "repetition": 0, "prefill_time_s": 0.5, "num_passes": 5}
    fields |= {"num_prompt_tokens": 9, **more}
    return Row(model="m", item=item, arm=arm, token_ids=token_ids, time_s=time_s, **fields)


# Data


def test_ten_edits_of_forty_to_eighty_lines_compile() -> None:
    changes = read_jsonl(EDITS / "changes.jsonl")
    assert len({change["file"] for change in changes}) == len(changes) == 10
    assert {change["file"] for change in changes} == {
        path.name for path in (EDITS / "files").iterdir() if path.is_file()
    }
    for change in changes:
        text = edit_text(change["file"])
        ast.parse(text)
        assert 40 <= len(text.splitlines()) <= 80, change["file"]
        assert change["change"].endswith(".")


def test_recorded_failures_make_both_kinds_of_retry() -> None:
    failures = read_jsonl(FAILURES)
    assert all(set(failure) == {"task_id", "model", "text", "reason"} and failure["reason"] for failure in failures)
    problems = [PROBLEM | {"task_id": failure["task_id"]} for failure in failures]
    feedback, critique = retry_items(problems, failures[:1], DEFAULT_SIZE)
    text, reason = failures[0]["text"], failures[0]["reason"]
    assert [message["role"] for message in feedback.messages] == ["user", "assistant", "user"]
    assert feedback.messages[1]["content"] == text and reason in feedback.messages[2]["content"]
    assert [message["role"] for message in critique.messages] == ["user"]
    assert text not in critique.messages[0]["content"] and reason in critique.messages[0]["content"]
    assert feedback.reference_texts == critique.reference_texts == (text,)


def test_public_data_gives_the_prompts_that_were_announced() -> None:
    try:
        folder = data_folder()
    except DataMissingError as error:
        pytest.skip(str(error))
    sizes = Counter(item.part for item in work_items(folder, DEFAULT_SIZE, "any"))
    assert sizes["spec-bench"] == 26 and sizes["humaneval"] == 6 and sizes["whole"] == sizes["edits"] == 4
    items = work_items(folder, FULL_SIZE, "any")
    assert len({item.id for item in items}) == len(items)
    asked = {part: {i.id.partition("/")[2] for i in items if i.part == part} for part in ("humaneval", "whole")}
    assert not asked["humaneval"] & asked["whole"]


def test_missing_data_is_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECDEC_BENCH_DATA", str(tmp_path))
    with pytest.raises(DataMissingError, match=rf"spec_bench.jsonl is not in {tmp_path}.*SPECDEC_BENCH_DATA"):
        data_folder()
    assert decode.main(["--only", "humaneval", "--checkpoint", str(tmp_path / "rows.jsonl")]) == 2
    assert not (tmp_path / "rows.jsonl").exists()


# Generated code


def test_an_answer_passes_or_says_which_line_failed() -> None:
    assert code_of(RIGHT) == "def double(value):\n    return 2 * value\n"
    assert why_it_fails(PROBLEM, RIGHT) is None
    assert why_it_fails(PROBLEM, WRONG) == "This line failed with AssertionError: assert candidate(3) == 6"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("import sys\nsys.exit(0)", "status 0 before its tests were through"),
        ("import os\nos._exit(0)", "status 0 before its tests were through"),
        ("def double(value)", "SyntaxError"),
        ("[0] * (1 << 40)", "MemoryError"),
        ("open('file', 'w').write('x' * (1 << 22))", "File too large"),
        ("import os\nassert os.environ.get('HOME') is not None", "AssertionError"),
    ],
)
def test_an_answer_cannot_pass_by_ending_early_and_has_limits(body: str, said: str) -> None:
    assert said in (why_it_fails(PROBLEM, f"```python\n{body}\n```") or "")


# Arithmetic


def test_ratios_are_medians_over_prompts_with_an_interval_around_them() -> None:
    ours = [Timing((1, 2, 3, 4), time_s) for time_s in (1.0, 2.0, 4.0)]
    theirs = [Timing((1, 2, 3, 4), 4.0)] * 3
    assert median_ratio(ours, theirs) == {"median": 2.0, "low": 1.0, "high": 4.0}
    assert bootstrap([3.0] * 5, statistics.median) == (3.0, 3.0)
    low, high = bootstrap([float(value) for value in range(100)], statistics.median)
    assert 30 < low < 49 < high < 70


def test_summary_of_known_rows() -> None:
    drafting = {"num_draft_tokens": 20, "num_accepted_tokens": 5, "draft_time_s": 0.1, "control_time_s": 0.02}
    rows = [
        row("transformers-greedy", time_s=4.5, num_passes=10, ids=[7] * 11),
        row("transformers-lookup-5", time_s=2.2, ids=[7] * 11),
        row("plain-W", time_s=4.0, num_passes=10),
        row("speculative", time_s=1.0, predicted_tokens=10, predicted_time_s=0.4, **drafting),
        row("plain-W", "humaneval/2"),  # the other arms have not come to it yet
    ]
    group = summarise(rows)["results"]["m"]["humaneval"]
    assert group["items"] == ["humaneval/1"] and group["num_unfinished"] == 1
    assert group["best_transformers"] == "transformers-lookup-5"
    ours = group["arms"]["speculative"]
    assert (ours["num_tokens"], ours["tokens_per_second"], ours["decode_tokens_per_second"]) == (11, 11.0, 20.0)
    assert (ours["acceptance_length"], ours["acceptance_rate"]) == (2.0, 0.25)
    assert (ours["draft_time_share"], ours["control_time_share"]) == (0.1, 0.02)
    assert ours["predicted_over_realised_speed"] == 1.25
    assert ours["against_transformers-greedy"]["speed"]["median"] == 4.5
    assert ours["against_transformers-best"]["speed"]["median"] == 2.2
    assert ours["against_transformers-best"]["num_equal_texts"] == 0
    assert ours["against_plain-W"]["decode_speed"]["median"] == 7.0
    assert ours["against_plain-W"] | {"num_equal_texts": 1} == ours["against_plain-W"]


def test_what_an_arm_does_not_tell_is_none_and_not_nothing() -> None:
    arm = summarise([row("plain-1")])["results"]["m"]["humaneval"]["arms"]["plain-1"]
    assert arm["acceptance_rate"] is arm["draft_time_share"] is arm["predicted_over_realised_speed"] is None


def test_categories_count_alike_and_identical_retries_stand_apart() -> None:
    spec = [
        row(arm, f"spec-bench/{item}", part="spec-bench", category=category, time_s=time_s)
        for item, category, times in ((1, "qa", (1, 2)), (2, "rag", (1, 4)), (3, "rag", (1, 4)))
        for arm, time_s in zip(("speculative", "plain-W"), times, strict=True)
    ]
    retries = [
        row("plain-W", f"retries/{kind}", part="retries", category=kind, repeats_earlier_answer=same)
        for kind, same in (("feedback", True), ("critique", False))
    ]
    results = summarise([*spec, *retries])["results"]["m"]
    assert results["spec-bench"]["mean_over_categories"]["speculative"] == {"against_plain-W": 3.0}
    assert results["retries: identical feedback"]["items"] == ["retries/feedback"]
    assert results["retries: differing"]["items"] == ["retries/critique"]


@pytest.mark.parametrize(
    ("ids", "where"),
    [(list(range(10)), 10), ([*range(4), 99, *range(5, 11)], 4), ([*range(11), 1], 11)],
    ids=["shorter", "other", "longer"],
)
def test_unequal_texts_of_bitwise_arms_are_found_and_nothing_is_timed(ids: list[int], where: int) -> None:
    rows = [row("plain-W"), row("plain-1", ids=[1]), row("speculative", ids=ids)]
    summary = summarise(rows)
    assert summary["results"] is None
    assert [found["first_difference"] for found in summary["unequal"]] == [where]
    assert summary["unequal"][0]["lengths"] == [11, len(ids)]
    assert unequal_texts([rows[0], rows[1]]) == []


# A killed run


class Killed(BaseException):
    """As a signal would."""


class FakeArms:
    """Arms that answer at once, and stop the whole run at the call of a given number."""

    def __init__(self, die_at: int | None = None, spoil: str | None = None) -> None:
        self.calls: list[tuple[str, str]] = []
        self.by_name = {name: self._arm(name) for name in ("transformers-greedy", "plain-W", "speculative")}
        self._die_at, self._spoil = die_at, spoil
        self.tokenizer = self

    def _arm(self, name: str) -> Callable[[Any], Any]:
        def run(prompt: Any) -> Any:
            if prompt.max_tokens == 4:  # warming up
                return None
            self.calls.append((prompt.reference_texts[0], name))
            if len(self.calls) == self._die_at:
                raise Killed
            token_ids = [1, 2, 3] if name == self._spoil else [1, 2, 4]
            return Measured(token_ids=token_ids, time_s=1.0, prefill_time_s=0.5, num_passes=2)

        return run

    def prompt(self, item: Any) -> Any:
        from evals.bench.decode_arms import Prompt

        return Prompt((1,), item.max_tokens, (item.id,))


@pytest.fixture
def run_bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, FakeArms]]:
    problems = [PROBLEM | {"task_id": f"Own/{number}"} for number in range(10)]
    (tmp_path / "humaneval.jsonl").write_text("".join(json.dumps(line) + "\n" for line in problems))
    (tmp_path / "spec_bench.jsonl").write_text("")

    def run(*options: str, **fake: Any) -> tuple[int, FakeArms]:
        arms = FakeArms(**fake)
        monkeypatch.setattr("evals.bench.decode_arms.build_arms", lambda reference, assistant: arms)
        files = {"--data": ".", "--checkpoint": "rows.jsonl", "--output": "results.json"}
        given = [text for name, value in files.items() for text in (name, str(tmp_path / value))]
        return decode.main(["--model", "m", "--only", "humaneval,whole", *given, *options]), arms

    return run


def test_a_killed_run_goes_on_where_it_was(run_bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Killed):
        run_bench(die_at=8)
    with (tmp_path / "rows.jsonl").open("a") as file:
        file.write('{"model": "m", "item": "humaneval/Own')  # the kill came while a line was written
    assert run_bench()[0] == 2
    assert "--resume" in capsys.readouterr().err
    status, arms = run_bench("--resume")
    assert status == 0 and len(arms.calls) == 30 - 7
    rows = read_checkpoint(tmp_path / "rows.jsonl")[1]
    assert len(rows) == len({tuple(line[name] for name in KEY) for line in rows}) == 30
    assert run_bench("--resume")[1].calls == []
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last["num_rows"] == 30 and last["results"]["m"]["whole"]["num_unfinished"] == 0
    assert last == json.loads((tmp_path / "results.json").read_text())
    assert {"versions", "num_threads", "cpu", "prompts", "sampling"} <= set(last["settings"])


def test_arms_take_turns_to_be_first(run_bench) -> None:
    _, arms = run_bench()
    assert [name for _, name in arms.calls[::3]][:4] == [
        "transformers-greedy",
        "plain-W",
        "speculative",
        "transformers-greedy",
    ]


def test_other_settings_are_not_mixed(run_bench, capsys: pytest.CaptureFixture[str]) -> None:
    run_bench("--limit", "1")
    assert run_bench("--resume", "--limit", "2")[0] == 2
    assert "prompts was" in capsys.readouterr().err


def test_unequal_ids_end_with_status_one(run_bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_bench("--limit", "1", spoil="speculative")[0] == 1
    assert "unequal: " in capsys.readouterr().err
    report = ["--report", str(tmp_path / "rows.jsonl"), "--output", str(tmp_path / "again.json")]
    assert decode.main(report) == 1
    again, before = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("again", "results"))
    assert again == before and again["results"] is None
    assert run_bench("--limit", "1", "--resume", spoil="transformers-greedy")[0] == 1  # they stay in the checkpoint


def test_texts_of_transformers_may_differ(run_bench, tmp_path: Path) -> None:
    assert run_bench("--limit", "1", spoil="transformers-greedy")[0] == 0
    arms = json.loads((tmp_path / "results.json").read_text())["results"]["m"]["humaneval"]["arms"]
    assert arms["speculative"]["against_transformers-greedy"]["num_equal_texts"] == 0
    assert arms["speculative"]["against_plain-W"]["num_equal_texts"] == 1


def test_a_row_is_written_once(tmp_path: Path) -> None:
    with checkpoint(tmp_path / "rows.jsonl", {"a": (1,)}, KEY, resume=False) as rows:
        rows.add(asdict(row("plain-W")))
        assert ("m", "humaneval/1", "plain-W", 0) in rows
        with pytest.raises(ValueError, match="already"):
            rows.add(asdict(row("plain-W")))
    with checkpoint(tmp_path / "rows.jsonl", {"a": (1,)}, KEY, resume=True) as rows:
        assert len(rows.rows) == 1
    (tmp_path / "other.jsonl").write_text('{"no": "settings"}\n')
    with pytest.raises(CheckpointError, match=r"other.jsonl is no checkpoint"):
        read_checkpoint(tmp_path / "other.jsonl")
