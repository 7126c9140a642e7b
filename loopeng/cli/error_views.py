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


def error_views(store: LoopStore, summary: RunSummary, watching: frozenset[str]) -> list[ErrorView]:
    """The errors of engine, agent and evaluators, grouped, the most frequent first.

    Of evaluators that only watch, too: nobody else would hear that they broke.
    """
    if not summary.error_attempts and not watching:
        return []
    groups: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for attempt in store.attempts(summary.run.id):
        for source, error in _errors(attempt, watching):
            groups.setdefault((source, normalise(error)), []).append((attempt.sample_id, error))
    views = [_view(source, shown) for (source, _), shown in groups.items()]
    return sorted(views, key=lambda view: (-view.num_attempts, view.source, view.error))


def _errors(attempt: Attempt, watching: frozenset[str]) -> Iterator[tuple[str, str]]:
    if attempt.error is not None:
        yield "engine or agent", attempt.error
    for result in attempt.results:
        if result.error is not None:
            role = " (only watches: the attempts were judged)" if result.evaluator in watching else ""
            yield f"evaluator {result.evaluator}{role}", result.error


def _view(source: str, shown: list[tuple[str, str]]) -> ErrorView:
    samples = list(dict.fromkeys(sample_id for sample_id, _ in shown))
    return ErrorView(source, shown[0][1], len(shown), len(samples), tuple(samples[:_NUM_EXAMPLES]))
