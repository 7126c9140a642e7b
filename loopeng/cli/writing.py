"""Where a long result goes: to a file, whole or not at all, or to stdout."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from loopeng.cli.output import note, printable
from loopeng.errors import UsageError

__all__ = ["Output", "write_pieces"]

Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file; - is stdout, the default.")
]


def write_pieces(pieces: Iterable[str], path: Path | None) -> None:
    """Write the pieces one after the other, in UTF-8. A kill leaves the old file, never half of the new one."""
    if path is not None and str(path) != "-":
        _write_file(pieces, path)
        note(f"written to {path}")
        return
    for piece in pieces:
        text = printable(piece.replace("\r\n", "\n")) if sys.stdout.isatty() else piece
        typer.echo(text.encode("utf-8", "backslashreplace"), nl=False)


def _write_file(pieces: Iterable[str], path: Path) -> None:
    """By way of a temporary file beside it. A pipe or a device is written as it is. Raises UsageError."""
    if path.exists() and not path.is_file() and not path.is_dir():
        with path.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            file.writelines(pieces)
        return
    try:
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a folder")
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from error
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            file.writelines(pieces)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
