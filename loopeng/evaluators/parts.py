"""Evaluators and the parts they are made of: what is true of a judge is true of a judge inside a composite."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from loopeng.evaluators.python import FunctionEvaluator
from loopeng.ports import Evaluator

__all__ = ["runs_own_code", "walk_parts"]


def walk_parts(evaluators: Iterable[Evaluator], whole: str = "") -> Iterator[tuple[str, Evaluator]]:
    """Every evaluator under its id, and after it its parts, theirs included, as in ``whole/part``."""
    for evaluator in evaluators:
        name = f"{whole}/{evaluator.id}" if whole else evaluator.id
        yield name, evaluator
        parts = getattr(evaluator, "parts", ())
        if isinstance(parts, list | tuple):
            yield from walk_parts((part for part in parts if isinstance(part, Evaluator)), name)


def runs_own_code(evaluators: Iterable[Evaluator]) -> bool:
    """Whether a function of the user's judges: nobody promised that it may be called from several threads at once."""
    return any(isinstance(each, FunctionEvaluator) for _, each in walk_parts(evaluators))
