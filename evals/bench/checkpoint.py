"""A JSONL file in which every row of a long run is safe before the next one is made.

The first line holds the settings that all rows have in common; going on under others is refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO


class CheckpointError(Exception):
    """The checkpoint cannot be gone on with; the message says what to do."""


class Checkpoint:
    """Rows that are there, and a way to add one. ``key`` names the fields that make a row the only one of its kind."""

    def __init__(self, file: TextIO, rows: list[dict[str, Any]], key: Sequence[str]) -> None:
        self._file, self.rows, self._key = file, rows, key
        self._keys = {self._key_of(row) for row in rows}

    def __contains__(self, key: tuple[Hashable, ...]) -> bool:
        return key in self._keys

    def add(self, row: dict[str, Any]) -> None:
        """Write a row through to the disk. Raises ValueError on one that is there."""
        key = self._key_of(row)
        if key in self._keys:
            raise ValueError(f"{key} is in the checkpoint already")
        _write_through(self._file, row)
        self._keys.add(key)
        self.rows.append(row)

    def _key_of(self, row: dict[str, Any]) -> tuple[Hashable, ...]:
        return tuple(row[name] for name in self._key)


def read_checkpoint(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(settings, rows). A last line that was cut off by a kill is left out.

    Raises CheckpointError where the file is none, or its first line was cut off.
    """
    try:
        whole = path.read_text(encoding="utf-8").split("\n")[:-1]  # what follows the last newline was never finished
        first, *rows = map(json.loads, whole)
        return first["settings"], rows
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path} is no checkpoint: {error}") from error


@contextmanager
def checkpoint(path: Path, settings: dict[str, Any], key: Sequence[str], *, resume: bool) -> Iterator[Checkpoint]:
    """The file at ``path``, opened for more rows; ``resume`` goes on with one that is there.

    Raises CheckpointError: the file is there and ``resume`` was not asked for, or it was made under other settings.
    """
    rows: list[dict[str, Any]] = []
    if path.exists():
        if not resume:
            raise CheckpointError(f"{path} exists: go on with --resume, or remove it")
        found, rows = read_checkpoint(path)
        _check_same(path, found, json.loads(json.dumps(settings)))
        _drop_torn_line(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        if file.tell() == 0:
            _write_through(file, {"settings": settings})
        yield Checkpoint(file, rows, key)


def _check_same(path: Path, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    different = [name for name in sorted(found.keys() | wanted) if found.get(name) != wanted.get(name)]
    if different:
        values = "; ".join(f"{name} was {found.get(name)!r}, is {wanted.get(name)!r}" for name in different)
        raise CheckpointError(f"{path} was made under other settings: use them, or remove it ({values})")


def _write_through(file: TextIO, line: dict[str, Any]) -> None:
    file.write(json.dumps(line) + "\n")
    file.flush()
    os.fsync(file.fileno())


def _drop_torn_line(path: Path) -> None:
    data = path.read_bytes()
    end = data.rfind(b"\n") + 1
    if end < len(data):
        os.truncate(path, end)
