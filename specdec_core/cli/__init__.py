"""The command ``specdec``: generate and serve text, look at rounds, audit texts, measure passes, fetch models."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

import typer

from specdec_core.cli.audit import audit
from specdec_core.cli.generate import generate
from specdec_core.cli.loading import describe, fetch
from specdec_core.cli.profile import profile
from specdec_core.cli.serve import serve
from specdec_core.errors import SpecDecError

__all__ = ["app", "main", "root"]

app = typer.Typer(
    help="Lossless speculative decoding: the text of plain decoding, in fewer passes of the model.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def root() -> None:
    """Group of commands."""


for command in (generate, serve, audit, profile, fetch, describe):
    app.command()(command)


def main() -> None:
    """Run the command; errors of ours are a line on stderr, without a traceback, and exit 2; the system's, exit 1."""
    try:
        app()
    except SpecDecError as error:
        typer.echo(f"specdec: {error}", err=True)
        sys.exit(2)
    except OSError as error:  # a full disk, a folder without rights
        typer.echo(f"specdec: {error}", err=True)
        _drop_output()
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


def _drop_output() -> None:
    """What standard output still holds goes nowhere: flushed at exit to a full disk, it would make the status 120."""
    with suppress(OSError), open(os.devnull, "wb") as nowhere:  # an output of another kind than a file holds nothing
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
