"""A real run over hostile texts, in a real database: what the reports are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from loopeng import Attempt, Loop, Sample
from loopeng.cli.run_names import read_report
from loopeng.report.run_report import RunReport
from loopeng.run_records import RunRecords
from loopeng.task_file import task_from_dict

# by sample: the answer, which the evaluators see; "boom" breaks one of them
ANSWERS = {
    "plain": "good",
    "formula": '=HYPERLINK("http://evil","x")',
    "minus": "-2+3",
    "markup": "<b>]]>&amp;</b> | `code` | **bold** @everyone ![x](y)",
    "control": "bad\x00\x1b[2J\x08 bell\x07 \ufffe end\r\nsecond line",
    "quote": 'he said "no", twice\n\n,,;',
    "boom": "boom",
    "unicode": "早い 🐢 \u2028 é",
}
SPLITS = ("reflect", "gate", "holdout")


def no_boom(text: str) -> bool:
    if text == "boom":
        raise RuntimeError("the grader fell over\x00 at <line 3>")
    return True


def says_good(sample: Sample, attempt: Attempt) -> dict[str, Any]:
    """The reason quotes what the model said and the target, as reasons may."""
    passed = "good" in attempt.text
    return {"score": float(passed), "reason": f"wanted {sample.target}, got {attempt.text}", "passed": passed}


@dataclass(frozen=True)
class Written:
    """What reports take."""

    report: RunReport
    records: RunRecords


Run = Callable[..., Written]


@pytest.fixture
def run_of(tmp_path: Path) -> Iterator[Run]:
    """Run a task on these answers; with ``repeats`` an answer may be a list, one for each."""
    with Loop.open(tmp_path / "loop.db", engine=lambda messages, params: "") as loop:

        def call(answers: Mapping[str, str | Sequence[str]] = ANSWERS, **changes: Any) -> Written:
            counts: dict[str, int] = {}

            def answer(messages: Sequence[Mapping[str, str]], params: Mapping[str, Any]) -> str:
                name = messages[-1]["content"].split()[1]
                counts[name] = counts.get(name, -1) + 1
                text = answers[name]
                return text if isinstance(text, str) else text[counts[name] % len(text)]

            samples = [
                {"id": name, "name": name, "gold": f"gold-{name}", "split": SPLITS[index % 3]}
                for index, name in enumerate(answers)
            ]
            keys = {
                "version": 1,
                "name": "hostile <task> & co",
                "prompt": {"name": "ask", "template": "Say {{ name }} please{{ rules }}"},
                "dataset": {"samples": samples, "id": "id", "split": "split", "target": "gold"},
                "evaluators": [
                    {"id": "no-boom", "type": "python", "function": f"{__name__}:no_boom"},
                    {"id": "says-good", "type": "python", "function": f"{__name__}:says_good"},
                ],
                "loop": {"max_attempts": 1, "retry": "critique"},
                "improve": {"enabled": False},
            }
            with Loop.open(loop.store.path, engine=answer) as own:
                result = own.run(task_from_dict({**keys, **changes}))
            return Written(*read_report(loop.store, result.run))

        yield call
