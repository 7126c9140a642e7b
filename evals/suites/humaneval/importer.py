"""HumanEval: the beginning of a Python function, tests with a ``check(candidate)``, and a body that passes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any


def humaneval_samples(rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """The target is the body that the authors give; tests decide, not the target."""
    for row in rows:
        yield {
            "id": row["task_id"],
            "prompt": row["prompt"],
            "entry_point": row["entry_point"],
            "test": row["test"],
            "target": row["canonical_solution"],
        }
