"""GSM8K: school mathematics in words. A row has the question and a worked answer with the number after ``####``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any


def gsm8k_samples(rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Rows have no id: a sample is named by its place in the file, from 0."""
    for index, row in enumerate(rows):
        _, marker, number = row["answer"].rpartition("####")
        if not marker or not number.strip():
            raise ValueError(f"row {index + 1} has no number after ####")
        yield {"id": f"gsm8k-{index}", "question": row["question"], "target": number.strip()}
