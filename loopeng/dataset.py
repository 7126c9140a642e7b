"""Samples from a file or from the task itself, each with the line it stands on.

A sample's split is that of its ``split`` field, or a stable hash of its group or id: adding, removing or reordering
samples moves no other.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from loopeng.errors import TaskError
from loopeng.schema import Sample, Split, content_hash
from loopeng.schema.base import SPLITS
from loopeng.schema.task import DatasetSpec
from loopeng.validation import did_you_mean
from loopeng.yaml_lines import read_text

__all__ = ["Row", "assign_split", "make_samples", "read_rows"]

_RESERVED = {
    "rules": "rename the field",
    "target": "name it in the task file, as in dataset: {target: target}, or rename the field",
}


@dataclass(frozen=True)
class Row:
    """One line of data: its fields, and where it stands."""

    fields: Mapping[str, Any]
    file: str | None = None
    line: int | None = None

    def error(self, message: str, suggestion: str | None = None) -> TaskError:
        """A mistake in this row."""
        return TaskError(message, file=self.file, line=self.line, suggestion=suggestion)

    def get(self, name: str) -> Any:
        """A field that must be there. Raises TaskError."""
        if name not in self.fields:
            hint = did_you_mean(name, self.fields) or f"fields: {', '.join(self.fields)}"
            raise self.error(f"the sample has no field {name!r}", hint)
        return self.fields[name]


def read_rows(path: Path, shown: str | None = None) -> tuple[Row, ...]:
    """The rows of a .jsonl or .csv file; ``shown`` is the path for messages. Blank lines do not count.

    Raises TaskError with the line: unreadable, not UTF-8, a bad line, twice the same key.
    """
    shown = shown or str(path)
    readers = {".jsonl": _json_rows, ".ndjson": _json_rows, ".csv": _csv_rows}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        hint = "save it as .jsonl, one JSON object a line, or as .csv"
        raise TaskError(f"{path.name!r} is no data file that can be read", file=shown, suggestion=hint)
    rows = tuple(reader(read_text(path, shown), shown))
    if not rows:
        raise TaskError("the dataset is empty", file=shown, suggestion="add at least one sample")
    return rows


def make_samples(rows: Iterable[Row], spec: DatasetSpec) -> tuple[Sample, ...]:
    """Samples with ids, targets and splits. Raises TaskError with the row's line."""
    first_by_id: dict[str, Row] = {}
    split_by_group: dict[str, tuple[Split, Row]] = {}
    samples = []
    for row in rows:
        sample = _sample(row, spec)
        if sample.id in first_by_id:
            raise _duplicate(row, first_by_id[sample.id], sample.id, spec)
        first_by_id[sample.id] = row
        if sample.group is not None:
            split, first = split_by_group.setdefault(sample.group, (sample.split, row))
            if split != sample.split:
                where = f" (line {first.line})" if first.line else ""
                raise row.error(
                    f"group {sample.group!r} is in split {sample.split} here and in {split} before{where}",
                    "a group stays in one split, so that nothing learned from it is tested on it",
                )
        samples.append(sample)
    return tuple(samples)


def assign_split(key: str, shares: Mapping[Split, float]) -> Split:
    """The split of a sample by the hash of its id or group.

    >>> assign_split("mug", {"gate": 1.0})
    'gate'
    """
    digest = hashlib.sha256(f"loopeng split 1:{key}".encode()).digest()
    point = int.from_bytes(digest[:8]) / 2**64
    for split in SPLITS:
        point -= shares.get(split, 0.0)
        if point < 0:
            return split
    return max(SPLITS, key=lambda split: shares.get(split, 0.0))  # the shares add up to a hair less than 1


def _sample(row: Row, spec: DatasetSpec) -> Sample:
    not_inputs = {spec.target, spec.split}
    inputs = {name: value for name, value in row.fields.items() if name not in not_inputs}
    for name, hint in _RESERVED.items():
        if name in inputs:
            raise row.error(f"a field cannot be called {name!r}", hint)
    target = None if spec.target is None else row.get(spec.target)
    sample_id = content_hash(inputs)[:16] if spec.id is None else _key(row, spec.id)
    group = None if spec.group is None else _key(row, spec.group)
    split = assign_split(sample_id if group is None else group, spec.splits)
    if spec.split is not None:
        split = _given_split(row, spec.split)
    return Sample(id=sample_id, inputs=inputs, target=target, split=split, group=group)


def _key(row: Row, name: str) -> str:
    """An id or group: text, or a whole number."""
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise row.error(f"{name!r} must be text or a whole number and not empty, not {value!r}")
    return str(value).strip()


def _given_split(row: Row, name: str) -> Split:
    value = row.get(name)
    for split in SPLITS:
        if isinstance(value, str) and value.strip() == split:
            return split
    hint = did_you_mean(str(value), SPLITS) or f"write {', '.join(SPLITS[:-1])} or {SPLITS[-1]}"
    raise row.error(f"{name!r} is {value!r}, which is no split", hint)


def _duplicate(row: Row, first: Row, sample_id: str, spec: DatasetSpec) -> TaskError:
    where = f" (first on line {first.line})" if first.line else ""
    if spec.id is None:
        return row.error(f"the same input stands in the data twice{where}", "remove one, or name an id field")
    return row.error(f"the id {sample_id!r} stands in the data twice{where}", "give each sample its own")


def _json_rows(text: str, shown: str) -> Iterator[Row]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield Row(_json_object(line, shown, number), shown, number)


def _json_object(line: str, shown: str, number: int) -> dict[str, Any]:
    try:
        value = json.loads(line, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        message = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        hint = "one JSON object a line" if number == 1 and line.strip() in ("[", "{") else None
        raise TaskError(f"this line is not JSON: {message}", file=shown, line=number, suggestion=hint) from None
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise TaskError("this line holds half a character (a lone surrogate)", file=shown, line=number) from None
    if not isinstance(value, dict):
        hint = 'write {"name": value, ...}'
        raise TaskError("a line holds one JSON object", file=shown, line=number, suggestion=hint)
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"the key {key!r} stands here twice")
        result[key] = value
    return result


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is too large a number")
    return value


def _csv_rows(text: str, shown: str) -> Iterator[Row]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    header: list[str] = []
    end = 0
    try:
        for cells in reader:
            line, end = end + 1, reader.line_num
            if not any(cell.strip() for cell in cells):
                continue
            if not header:
                header = _csv_header(cells, shown, line)
            elif len(cells) != len(header):
                message = f"fields in this row: {len(cells)}, named on the first line: {len(header)}"
                raise TaskError(message, file=shown, line=line, suggestion='put fields with commas in "quotes"')
            else:
                yield Row(dict(zip(header, cells, strict=True)), shown, line)
    except csv.Error as error:
        raise TaskError(f"this is not CSV: {error}", file=shown, line=reader.line_num or 1) from None


def _csv_header(cells: list[str], shown: str, line: int) -> list[str]:
    names = [cell.strip() for cell in cells]
    if len(names) == 1 and (";" in names[0] or "\t" in names[0]):
        raise TaskError("the first line has no commas", file=shown, line=line, suggestion="separate fields by commas")
    for name in names:
        if not name or names.count(name) > 1:
            what = f"names {name!r} twice" if name else "has an empty name"
            raise TaskError(f"the first line {what}", file=shown, line=line, suggestion="name every column once")
    return names
