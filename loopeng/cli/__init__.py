"""The command line. Commands import what they need when they run, so that ``loopeng --help`` is there at once."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from types import FrameType

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and leave with its exit code. SIGTERM is taken like Ctrl-C: the state is saved."""
    try:
        signal.signal(signal.SIGTERM, _interrupt)
        from loopeng.cli.app import app
        from loopeng.cli.places import program

        app(sys.argv[1:] if arguments is None else list(arguments), prog_name=program())
    except KeyboardInterrupt:  # before a command began: the commands answer it themselves
        sys.stderr.write("interrupted\n")
        raise SystemExit(130) from None


def _interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
