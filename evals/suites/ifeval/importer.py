"""Rows of the public ``ifeval.jsonl`` (google-research, instruction_following_eval) as samples of this suite."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any


def ifeval_samples(rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """One sample a row: the prompt as it is, and the instructions for the evaluator ``ifeval``.

    Arguments that are null, as in copies of the data that give every row every argument, are left out.
    Raises KeyError for a row that lacks a field.
    """
    for row in rows:
        yield {
            "id": str(row["key"]),
            "prompt": row["prompt"],
            "instruction_id_list": list(row["instruction_id_list"]),
            "kwargs": [{key: value for key, value in each.items() if value is not None} for each in row["kwargs"]],
        }
