"""A first task to change: what ``loopeng init`` writes."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from string import Template

from loopeng.errors import UsageError

__all__ = ["STARTER_FILES", "write_starter"]

STARTER_FILES = ("task.yaml", "samples.jsonl")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def write_starter(folder: str | Path, name: str | None = None) -> tuple[Path, ...]:
    """Write a small task that runs with the embedded model into ``folder``; ``name`` defaults to the folder's.

    Returns the files written. Raises UsageError where one is there already, and then writes none; or where the name
    or the folder cannot be used.
    """
    folder = Path(folder)
    name = name or re.sub(r"[^A-Za-z0-9_.-]+", "-", folder.resolve().name).strip("-") or "task"
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot be a task's name: use letters, digits, '.', '_' and '-'")
    present = [each for each in STARTER_FILES if (folder / each).exists()]
    if present:
        raise UsageError(f"{folder / present[0]} is there already; nothing was written")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return tuple(_write(folder / each, _content(each, name)) for each in STARTER_FILES)
    except OSError as error:
        raise UsageError(f"cannot write into {folder}: {error}") from error


def _content(file_name: str, name: str) -> str:
    text = (files("loopeng") / "templates" / file_name).read_text(encoding="utf-8")
    return Template(text).substitute(name=name) if file_name == "task.yaml" else text


def _write(path: Path, text: str) -> Path:
    with path.open("x", encoding="utf-8", newline="\n") as file:
        file.write(text)
    return path
