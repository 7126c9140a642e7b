"""What broke in a run, from its attempts to groups of the same error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from loopeng.patterns.fingerprint import normalise
from loopeng.report.notices import ErrorView

if TYPE_CHECKING:
    from loopeng.run_summary import RunSummary
    from loopeng.schema import Attempt
    from loopeng.store import LoopStore

__all__ = ["error_views"]

_NUM_EXAMPLES = 3


def error_views(store: LoopStore, summary: RunSummary) -> list[ErrorView]:
    """The errors of engine, agent and evaluators, grouped, the most frequent first."""
    if not summary.error_attempts:
        return []
    groups: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for attempt in store.attempts(summary.run.id):
        for source, error in _errors(attempt):
            groups.setdefault((source, normalise(error)), []).append((attempt.sample_id, error))
    views = [_view(source, shown) for (source, _), shown in groups.items()]
    return sorted(views, key=lambda view: (-view.num_attempts, view.source, view.error))


def _errors(attempt: Attempt) -> Iterator[tuple[str, str]]:
    if attempt.error is not None:
        yield "engine or agent", attempt.error
    for result in attempt.results:
        if result.error is not None:
            yield f"evaluator {result.evaluator}", result.error


def _view(source: str, shown: list[tuple[str, str]]) -> ErrorView:
    samples = list(dict.fromkeys(sample_id for sample_id, _ in shown))
    return ErrorView(source, shown[0][1], len(shown), len(samples), tuple(samples[:_NUM_EXAMPLES]))
