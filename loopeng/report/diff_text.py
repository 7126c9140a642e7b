"""Two runs side by side, for a terminal and as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loopeng.report.layout import columns, count, excerpt, rate
from loopeng.run_diff import Key, PairedRate, RunDiff, Side

__all__ = ["Answers", "diff_document", "diff_text"]

_MOST_IDS = 20


@dataclass(frozen=True)
class Answers:
    """What both runs answered to a sample: the attempts that were kept."""

    before: str
    after: str


def diff_text(diff: RunDiff, answers: Mapping[Key, Answers]) -> str:
    """What changed, how much that is worth, and which samples; ``answers`` are those of some of them."""
    parts = [f"before: {diff.before.id}   after: {diff.after.id}"]
    parts[0] += "".join(
        f"\n  {line}" for line in diff.differences or ("no difference but chance and code: same task and engine",)
    )
    parts.append(_table(diff))
    parts.append(_counts(diff))
    for name, side in (("first attempt", diff.first), ("final", diff.final)):
        parts += [_listed(f"fixed, {name}", side.total.fixed, answers if name == "final" else {})]
        parts += [_listed(f"broken, {name}", side.total.broken, answers if name == "final" else {})]
    return "\n\n".join(part for part in parts if part)


def _table(diff: RunDiff) -> str:
    rows: list[tuple[str, ...]] = [
        ("", "before", "after", "fixed", "broken", "same pass", "same fail", "difference", "p")
    ]
    for title, side in (("first attempt", diff.first), ("final", diff.final)):
        rows.append(_row(title, side.total))
        rows += [_row(f"  {name}", each) for name, each in side.evaluators.items()]
    return columns(rows, right=(3, 4, 5, 6, 8), indent="  ")


def _row(name: str, paired: PairedRate) -> tuple[str, ...]:
    pairs = paired.pairs
    counts = (pairs.fixed, pairs.broken, pairs.both_passed, pairs.both_failed)
    return (
        name,
        rate(pairs.baseline_passed, pairs.num_pairs),
        rate(pairs.candidate_passed, pairs.num_pairs),
        *(str(number) for number in counts),
        _difference(paired),
        f"{paired.p_value:.3g}" if pairs.num_pairs else "",
    )


def _difference(paired: PairedRate) -> str:
    if paired.difference is None:
        return "no pairs"
    low, high = paired.interval
    return f"{paired.difference * 100:+.0f} points [{low * 100:+.0f}, {high * 100:+.0f}]"


def _counts(diff: RunDiff) -> str:
    lines = [
        f"{count(diff.num_pairs, 'pair')}, the kept answer is the same text in {diff.num_same_text}; "
        f"dropped for errors: {diff.first.total.errors} of the first attempts, {diff.final.total.errors} in the end",
        "differences with 95 % intervals; p: exact McNemar test, two-sided (repeats: by sample, groups: by group)",
        "the code of evaluators and agents is not compared: where it changed, it may be what made the difference",
    ]
    if diff.other_inputs:
        lines.append(f"other inputs under the same id, not compared: {_ids(diff.other_inputs)}")
    for run, keys in ((diff.before, diff.only_before), (diff.after, diff.only_after)):
        if keys:
            lines.append(f"only in {run.id}, not compared: {_ids(keys)}")
    return "\n".join(lines)


def _listed(title: str, keys: Sequence[Key], answers: Mapping[Key, Answers]) -> str:
    if not keys:
        return ""
    lines = [f"{title} ({len(keys)}): {_ids(keys)}"]
    for key in keys:
        if key in answers:
            lines += [f"  {_id(key)}", f"    before {excerpt(answers[key].before)}"]
            lines += [f"    after  {excerpt(answers[key].after)}"]
    return "\n".join(lines)


def _ids(keys: Sequence[Key]) -> str:
    more = f" ... and {len(keys) - _MOST_IDS} more" if len(keys) > _MOST_IDS else ""
    return ", ".join(_id(key) for key in keys[:_MOST_IDS]) + more


def _id(key: Key) -> str:
    return key.sample_id if not key.repeat else f"{key.sample_id} (repeat {key.repeat})"


def diff_document(diff: RunDiff, answers: Mapping[Key, Answers]) -> dict[str, Any]:
    """The same as plain values, with all ids."""
    return {
        "before": diff.before,
        "after": diff.after,
        "differences": diff.differences,
        "num_pairs": diff.num_pairs,
        "num_same_text": diff.num_same_text,
        "only_before": _keys(diff.only_before),
        "only_after": _keys(diff.only_after),
        "other_inputs": _keys(diff.other_inputs),
        "first": _side(diff.first),
        "final": _side(diff.final),
        "answers": [key._asdict() | vars(each) for key, each in answers.items()],
    }


def _side(side: Side) -> dict[str, Any]:
    evaluators = {name: _paired(each) for name, each in side.evaluators.items()}
    return {**_paired(side.total), "evaluators": evaluators}


def _paired(paired: PairedRate) -> dict[str, Any]:
    low, high = paired.interval
    return {
        **paired.pairs.model_dump(mode="json"),
        "errors": paired.errors,
        "difference": paired.difference,
        "low": low,
        "high": high,
        "p_value": paired.p_value,
        "fixed_samples": _keys(paired.fixed),
        "broken_samples": _keys(paired.broken),
    }


def _keys(keys: Sequence[Key]) -> list[dict[str, Any]]:
    return [key._asdict() for key in keys]
