"""What a person must hear when something did not happen: errors, limits, failures that lead to no proposal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from loopeng.report.layout import count, excerpt

if TYPE_CHECKING:
    from loopeng.improve.unproposed import Unproposed

__all__ = ["ErrorView", "errors_text", "limit_to_raise", "nothing_text"]

_WIDTH = 200


@dataclass(frozen=True)
class ErrorView:
    """What broke with the same words, but for numbers and names, and where."""

    source: str  # "engine or agent", or the evaluator
    error: str  # of the first attempt that showed it
    num_attempts: int
    num_samples: int
    sample_ids: tuple[str, ...]  # examples


def errors_text(errors: Sequence[ErrorView]) -> str:
    """Why attempts could not be judged, the most frequent error first."""
    lines = ["errors (these attempts could not be judged)"]
    for view in errors:
        where = ", ".join(view.sample_ids) + (" ..." if view.num_samples > len(view.sample_ids) else "")
        seen = f"{count(view.num_attempts, 'attempt')} on {count(view.num_samples, 'sample')}"
        lines += [f"  {view.source}: {seen} ({where})", f"      {excerpt(view.error, _WIDTH)}"]
    return "\n".join(lines)


def nothing_text(unproposed: Sequence[Unproposed]) -> str:
    """Why ``propose`` proposed nothing, by failure."""
    if not unproposed:
        return "nothing to propose: no failures were seen under the prompt's current version (reflect split)"
    lines = ["nothing to propose:"]
    lines += [
        f"  {each.pattern.id} ({each.pattern.evaluator}: {each.pattern.category}): {each.reason}" for each in unproposed
    ]
    return "\n".join(lines)


def limit_to_raise(reason: str | None, section: str = "limits") -> str | None:
    """The key of a task file that a stop names; None where going on needs no change, as time starts afresh.

    >>> limit_to_raise("limits.attempts: 7 of 7 attempts made"), limit_to_raise("limits.total_time_s: 9 of 9 seconds")
    ('limits.attempts', None)
    """
    names = ("attempts", "total_tokens")
    return next((f"{section}.{name}" for name in names if f"limits.{name}:" in (reason or "")), None)
