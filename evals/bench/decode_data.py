"""The prompts of the bench: Spec-Bench, HumanEval, edits of files, and retries after real failures.

Spec-Bench is asked its first turn only: a second turn would depend on the first answer and so on the model, and its
prompt would not be the same for all. Edits come without reference texts: the file is in the prompt, where drafts find
it anyway. Retries carry the failing answer as a reference text, as the loop gives it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evals.bench.decode_humaneval import instruction
from evals.bench.decode_options import PARTS, Size
from evals.bench.timing import evenly

FOLDER = Path(__file__).parent
FAILURES = FOLDER / "retries" / "failures.jsonl"
EDITS = FOLDER / "edits"

_EDIT = (
    "Here is the file {name}.\n\n```python\n{text}```\n\n{change} Change nothing else. Return the whole file in one "
    "code block and nothing else."
)
_FEEDBACK = "Your function fails its tests. {reason}\nReturn the whole corrected function in one code block."
_CRITIQUE = "{instruction}\n\nAn earlier attempt failed its tests. {reason}\nAvoid that mistake."


@dataclass(frozen=True)
class WorkItem:
    """One prompt of the bench."""

    id: str
    part: str  # of decode_options.PARTS
    category: str  # what results are grouped by within the part
    messages: tuple[dict[str, str], ...]
    max_tokens: int
    reference_texts: tuple[str, ...] = ()
    earlier_answer: str | None = None  # a retry that repeats it is reported apart


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """All rows of a JSONL file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def work_items(folder: Path, size: Size, model: str, parts: Sequence[str] = PARTS) -> list[WorkItem]:
    """The prompts of ``parts`` for ``model``; ``folder`` holds the public data."""
    items: list[WorkItem] = []
    for part in parts:
        if part == "spec-bench":
            items += spec_bench_items(read_jsonl(folder / "spec_bench.jsonl"), size)
        elif part == "edits":
            items += edit_items(size)
        elif part == "retries":
            items += retry_items(read_jsonl(folder / "humaneval.jsonl"), failures_of(model), size)
        else:
            items += humaneval_items(read_jsonl(folder / "humaneval.jsonl"), size, part)
    return items


def spec_bench_items(questions: list[dict[str, Any]], size: Size) -> list[WorkItem]:
    """The first turns, ``size.per_category`` of each category."""
    categories = list(dict.fromkeys(question["category"] for question in questions))
    return [
        WorkItem(
            f"spec-bench/{question['question_id']}",
            "spec-bench",
            category,
            (_user(question["turns"][0]),),
            size.spec_bench_tokens,
        )
        for category in categories
        for question in evenly([row for row in questions if row["category"] == category], size.per_category)
    ]


def humaneval_items(problems: list[dict[str, Any]], size: Size, part: str) -> list[WorkItem]:
    """The first tokens of some answers, or the whole of others: no problem is in both."""
    chosen = evenly(problems, size.num_humaneval + size.num_whole)
    whole = evenly(chosen, size.num_whole)
    first = [problem for problem in chosen if problem not in whole]
    asked, max_tokens = (whole, size.whole_tokens) if part == "whole" else (first, size.humaneval_tokens)
    return [
        WorkItem(f"{part}/{problem['task_id']}", part, part, (_user(instruction(problem)),), max_tokens)
        for problem in asked
    ]


def edit_items(size: Size) -> list[WorkItem]:
    """One change in one file each; the whole file is asked for."""
    return [
        WorkItem(
            f"edits/{row['file']}",
            "edits",
            "edits",
            (_user(_EDIT.format(name=row["file"], text=edit_text(row["file"]), change=row["change"])),),
            size.edit_tokens,
        )
        for row in evenly(read_jsonl(EDITS / "changes.jsonl"), size.num_edits)
    ]


def edit_text(name: str) -> str:
    """A file as it is before the change."""
    return (EDITS / "files" / name).read_text(encoding="utf-8")


def failures_of(model: str, path: Path = FAILURES) -> list[dict[str, Any]]:
    """The recorded failures of ``model``; of all models where it has none, for then none is its own."""
    rows = read_jsonl(path)
    return [row for row in rows if row["model"] == model] or rows


def retry_items(problems: list[dict[str, Any]], failures: list[dict[str, Any]], size: Size) -> list[WorkItem]:
    """Both kinds of retry after each failure.

    ``feedback`` goes on with the conversation; ``critique`` is a fresh prompt that has the reason but not the answer.
    """
    problem_of = {problem["task_id"]: problem for problem in problems}
    items = []
    for failure in evenly(failures, size.num_failures):
        text, reason = failure["text"], failure["reason"]
        asked = instruction(problem_of[failure["task_id"]])
        feedback = (_user(asked), {"role": "assistant", "content": text}, _user(_FEEDBACK.format(reason=reason)))
        critique = (_user(_CRITIQUE.format(instruction=asked, reason=reason)),)
        for kind, messages in (("feedback", feedback), ("critique", critique)):
            name = f"retries/{kind}/{failure['task_id']}/{failure['model']}"
            items.append(WorkItem(name, "retries", kind, messages, size.retry_tokens, (text,), text))
    return items


def _user(content: str) -> dict[str, str]:
    return {"role": "user", "content": content}
