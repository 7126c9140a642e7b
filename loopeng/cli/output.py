"""What goes to stdout: text, or one JSON document. Colour only where a person looks."""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any

import typer

from loopeng.report.layout import plain_value

__all__ = ["ask", "can_ask", "colour_diff", "drop_output", "note", "print_json", "print_text", "printable"]

_CHANGE = re.compile(r"\[-(.*?)-\]|\{\+(.*?)\+\}", re.DOTALL)


def print_text(text: str) -> None:
    """A result for people, on stdout."""
    clean = printable(text)
    typer.echo(colour_diff(clean) if sys.stdout.isatty() else clean)


def printable(text: str) -> str:
    """Control characters, as a model's output may hold them, never reach the terminal.

    >>> printable("a\x1b[2Jb")
    'a\ufffd[2Jb'
    """
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)


def note(text: str) -> None:
    """A remark for people, on stderr."""
    clean = printable(text)
    typer.echo(colour_diff(clean) if sys.stderr.isatty() else clean, err=True)


def can_ask() -> bool:
    """Whether a person sits there: the question goes to stderr, the answer comes from stdin."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask(question: str) -> bool:
    """A yes from the terminal; anything else, the end of input included, is a no."""
    typer.echo(f"{question} [y/N] ", nl=False, err=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    typer.echo(json.dumps(value, default=plain_value, ensure_ascii=False, indent=2))


def drop_output() -> None:
    """What stdout still holds goes nowhere: flushed at exit to a full disk, it would make the exit code 120."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def colour_diff(text: str) -> str:
    """Removed words red, added words green.

    >>> colour_diff("a {+b+}")
    'a \\x1b[32m{+b+}\\x1b[0m'
    """
    return _CHANGE.sub(lambda m: typer.style(m[0], fg="red" if m[1] is not None else "green"), text)
