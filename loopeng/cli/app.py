"""The commands in one tree, and the way every error leaves: one line, its exit code, no traceback."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperGroup

from loopeng.cli import (
    check,
    doctor,
    failures,
    gate,
    initialise,
    model_list,
    prompts,
    propose,
    queue,
    report,
    rescore,
    run,
    runs,
    schema,
    work,
)
from loopeng.cli.output import drop_output
from loopeng.errors import LoopError

__all__ = ["LoopGroup", "app"]

_EXIT_CODES = """\
Exit codes:
  0  done; of a run: threshold met
  1  internal error; of prompts verify: something does not agree; of doctor: something fails
  2  usage or configuration
  3  finished below run.min_pass_rate
  4  samples, or a test, in error (outranks 3)
  5  stopped by a limit; what is printed says how to go on
  6  still pending: --wait ended, or you answered no
  7  stale or conflicting decision
130  interrupted, state saved
"""


class LoopGroup(TyperGroup):
    """Turns the package's errors into one line and their exit code."""

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]
        try:
            return super().invoke(ctx)
        except LoopError as error:
            typer.echo(f"error: {error}", err=True)
            _show_traceback(ctx)
            raise typer.Exit(error.exit_code) from error
        except KeyboardInterrupt:
            typer.echo("interrupted", err=True)
            raise typer.Exit(130) from None
        except (typer.Abort, BrokenPipeError):
            raise
        except Exception as error:
            if hasattr(error, "exit_code"):  # typer's own
                raise
            if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                typer.echo(f"error: {error}: make room and try again", err=True)
                drop_output()
            else:
                _report_unexpected(ctx, error)
            raise typer.Exit(1) from error


def _show_traceback(ctx: typer.Context) -> bool:
    wanted = bool(ctx.params.get("debug")) or os.environ.get("LOOPENG_DEBUG", "") not in ("", "0")
    if wanted:
        traceback.print_exc(file=sys.stderr)
    return wanted


def _report_unexpected(ctx: typer.Context, error: Exception) -> None:
    line = " ".join(str(error).split())[:300]
    if _show_traceback(ctx):
        typer.echo(f"internal error: {type(error).__name__}: {line}", err=True)
        return
    log = Path(tempfile.mkdtemp(prefix="loopeng-")) / "traceback.txt"
    log.write_text(traceback.format_exc())
    typer.echo(f"internal error: {type(error).__name__}: {line}; the traceback is in {log} (or use --debug)", err=True)


def _print_version(wanted: bool) -> None:
    if wanted:
        from loopeng import __version__

        typer.echo(f"loopeng {__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=LoopGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\n" + _EXIT_CODES,
)


@app.callback()
def _top(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks (also LOOPENG_DEBUG=1).")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Run a task, learn which mistakes come back, and approve the prompt changes that stop them.

    Start with:  loopeng init shop && cd shop && loopeng check && loopeng run
    """


for module in (initialise, check, run, report, rescore, propose, gate, work, model_list, doctor, schema):
    module.register(app)
for name, group in (("runs", runs), ("failures", failures), ("queue", queue), ("prompts", prompts)):
    app.add_typer(group.app, name=name)
