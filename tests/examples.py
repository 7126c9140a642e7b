"""Reads the examples out of a Markdown page and runs its console blocks.

A console block holds commands (``$ ...``) with what they print, standard output and error as a person sees them.
``...`` stands for anything. A command with nothing below it may print what it likes. ``$ echo $?`` with a number below
it says which exit code the command before it has; otherwise it is 0. ``$ cd folder`` holds to the end of its block.
``<!-- not run: reason -->`` above a block excuses it.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Block", "Command", "blocks", "commands", "differs", "run"]

ROOT = Path(__file__).parent.parent
_MODULES = {"loopeng": "loopeng.cli", "specdec": "specdec_core.cli"}
PROGRAMS = frozenset({*_MODULES, "python", "diff"})
_BLOCK = re.compile(
    r"^(?:<!-- not run:(?P<reason>[^\n]*?)-->\n+)?```(?P<language>python|console|yaml)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """One fenced block. ``reason`` is None where it is to be run."""

    language: str
    text: str
    line: int
    reason: str | None


@dataclass(frozen=True)
class Command:
    """One line after ``$``, what it prints (None: not said) and its exit code."""

    line: str
    output: str | None
    exit_code: int = 0


def blocks(page: str) -> list[Block]:
    """The python, console and yaml blocks of a page, in order."""
    return [
        Block(
            found["language"],
            found["text"],
            page.count("\n", 0, found.start("text")) + 1,
            None if found["reason"] is None else found["reason"].strip(),
        )
        for found in _BLOCK.finditer(page)
    ]


def commands(block: Block) -> list[Command]:
    """The commands of a console block."""
    found: list[Command] = []
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        line, _, output = part.partition("\n")
        while line.endswith("\\"):
            more, _, output = output.partition("\n")
            line = f"{line[:-1].rstrip()} {more.removeprefix('>').strip()}"
        if line == "echo $?":
            found[-1] = Command(found[-1].line, found[-1].output, int(output))
        else:
            found.append(Command(line, output.strip("\n") or None))
    return found


def run(command: Command, folder: Path) -> tuple[str, int]:
    """(output, exit code) of the real program, as if typed in ``folder``."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120", "NO_COLOR": "1", "LOOPENG_USER": "ana"}
    environment.pop("LOOPENG_DB", None)
    done = subprocess.run(
        _argv(command.line),
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout, done.returncode


def _argv(line: str) -> list[str]:
    """The words of a command, with this Python and the programs of this repository."""
    program, *arguments = shlex.split(line, comments=True)
    if program in _MODULES:
        code = f"import sys; sys.argv[0] = {program!r}; from {_MODULES[program]} import main; main()"
        return [sys.executable, "-c", code, *arguments]
    return [sys.executable if program == "python" else program, *arguments]


def differs(expected: str, actual: str) -> str | None:
    """None where the output is as shown, else both, one below the other."""
    wanted, found = (
        "\n".join(line.rstrip() for line in text.strip("\n").splitlines()) + "\n" for text in (expected, actual)
    )
    if doctest.OutputChecker().check_output(wanted, found, doctest.ELLIPSIS):
        return None
    return f"shown:\n{wanted}\nprinted:\n{found}"
