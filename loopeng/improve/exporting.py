"""Prompts written back to their files, for git: by hand, and by itself with ``prompt.export: on_commit``."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from loopeng.errors import LoopError, TaskError, UsageError
from loopeng.prompt_file import parse_prompt_file, prompt_file_text
from loopeng.prompts import text_hash
from loopeng.schema import PromptVersion
from loopeng.settings import DATABASE_PATH
from loopeng.store import LoopStore
from loopeng.yaml_lines import read_text

__all__ = ["Export", "export_left_behind", "export_on_commit", "export_prompt", "export_target"]

_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Export:
    """What became of an automatic export. ``error`` says why the file does not hold the head."""

    version: PromptVersion
    path: Path
    error: str | None = None


def export_target(store: LoopStore, prompt_name: str) -> Path:
    """The prompt's own file, by the newest suite run's task. Raises UsageError where it has none."""
    source = store.prompt_source(prompt_name)
    if source is None or source[0].file is None or source[1] is None:
        why = "no run has used it yet" if source is None else "its task file holds the template itself"
        raise UsageError(f"the prompt {prompt_name!r} has no file of its own ({why}): name one with --to FILE, or -")
    return _task_folder(store, source[1]) / source[0].file


def export_prompt(store: LoopStore, prompt_name: str, path: Path, *, force: bool = False) -> bool:
    """Write the head to a file, whole or not at all; False if that is what stands there already.

    Raises UsageError where the file cannot be written, or holds something that is in no version of this prompt and
    would be lost (not with ``force``).
    """
    head = store.head(prompt_name)
    try:
        if path.is_file() and _holds(path, head):
            return False
        lost = _would_be_lost(store, prompt_name, path)
        if lost is not None and not force:
            raise UsageError(f"{path} {lost}; pass --force to overwrite it, or name another file with --to")
        _write(path, prompt_file_text(head))
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from error
    return True


def export_on_commit(store: LoopStore, prompt_name: str) -> Export | None:
    """Write the head to the prompt's file, where its task says ``export: on_commit``; None where it does not.

    Never raises because of the file: a commit is a commit, and the next one, or ``prompts export``, writes it.
    """
    source = store.prompt_source(prompt_name)
    if source is None or source[0].export != "on_commit":
        return None
    version = store.head(prompt_name)
    try:
        path = export_target(store, prompt_name)
    except UsageError as error:
        return Export(version, Path(source[0].file or ""), str(error))
    try:
        export_prompt(store, prompt_name, path)
    except LoopError as error:
        return Export(version, path, str(error))
    if store.head(prompt_name).id != version.id:  # whoever moved it may have written before this did
        return export_on_commit(store, prompt_name)
    return Export(version, path)


def export_left_behind(store: LoopStore) -> list[Export]:
    """The same for every prompt whose head moved after its file was last written: somebody was cut off in between.

    A file that is newer than the move is left alone. Whoever checked out an earlier version meant it.
    """
    made = []
    for prompt_name in store.prompt_names():
        source = store.prompt_source(prompt_name)
        if source is None or source[0].export != "on_commit":
            continue
        with suppress(UsageError, OSError):
            path = export_target(store, prompt_name)
            written_at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
            if written_at >= _decided_at(store, prompt_name) or _holds(path, store.head(prompt_name)):
                continue
            if (export := export_on_commit(store, prompt_name)) is not None:
                made.append(export)
    return made


def _holds(path: Path, version: PromptVersion) -> bool:
    return path.read_bytes() == prompt_file_text(version).encode()


def _decided_at(store: LoopStore, prompt_name: str) -> datetime:
    """When somebody decided that the head is what it is; the beginning of time where a file made it so."""
    head = store.head(prompt_name)
    rollbacks = [each for each in store.decisions(prompt_name=prompt_name) if each.action == "rollback"]
    moves = [each.created_at for each in rollbacks if each.version_id == head.id]
    return max([*moves, head.created_at if head.proposal_id else _NEVER])


def _task_folder(store: LoopStore, task_path: Path) -> Path:
    """Where the task file is: beside the database, also after folder and database were moved or copied together."""
    folder = store.path.absolute().parent
    if folder.name == DATABASE_PATH.parent.name and (folder.parent / task_path.name).is_file():
        return folder.parent
    return task_path.parent


def _would_be_lost(store: LoopStore, prompt_name: str, path: Path) -> str | None:
    """What a file holds that is nowhere else; None where there is no file, or a version of this prompt in it."""
    if not path.exists():
        return None
    try:
        found = parse_prompt_file(read_text(path))
    except TaskError as error:
        return f"is no prompt file ({error.message})"
    if found.name not in (None, prompt_name):
        return f"is the file of the prompt {found.name!r}"
    versions = store.prompt_versions(prompt_name)
    if found.rules is None:
        known = found.template in {version.template for version in versions}
    else:
        known = text_hash(found.template, found.rules) in {version.text_hash for version in versions}
    return None if known else f"holds a text that is no version of {prompt_name!r} (a run would make it one)"


def _write(path: Path, text: str) -> None:
    """By way of a temporary file beside it, so that a kill leaves the old file or the new one."""
    path = path.resolve()
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask()
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
