"""The command ``specdec profile``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from specdec_core import cli_options
from specdec_core.cli_options import takes

__all__ = ["profile"]

_CLEAR_LINE = "\r\x1b[2K"


@takes(cli_options.loading)
def profile(
    loading: dict[str, Any],
    repeats: Annotated[int, typer.Option(min=1, help="Rounds over all row counts.")] = 10,
    cached_tokens: Annotated[int, typer.Option(min=1, help="Prompt read before the passes.")] = 256,
    draft_cost: Annotated[float, typer.Option(min=0, help="Time to draft a token, in plain passes.")] = 0.0,
    png: Annotated[Path | None, typer.Option(help="Write T(rows) as a picture (needs the extra 'plot').")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON instead of the text.")] = False,
) -> None:
    """Measure what a pass costs here: bytes, GB/s, T(rows), and from which acceptance on drafts pay.

    Example: specdec profile -m smollm2-135m --png passes.png
    """
    from specdec_core.loading import load_model
    from specdec_core.profile_report import check_can_plot, profile_document, profile_text, write_png
    from specdec_core.profiling import profile_model

    if png is not None:
        check_can_plot(png)
    with _progress() as tell:
        tell(f"loading {loading['reference']}")
        loaded = load_model(**loading)
        measured = profile_model(
            loaded, num_repeats=repeats, num_cached_tokens=cached_tokens, draft_cost=draft_cost, on_progress=tell
        )
    if png is not None:
        write_png(measured, png)
    typer.echo(json.dumps(profile_document(measured)) if as_json else profile_text(measured))


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """A line on standard error that says what is being done, and goes away; nothing where no person looks.

    It changes between measurements only: a spinner's thread would take part in them.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    try:
        yield lambda text: typer.echo(f"{_CLEAR_LINE}{text}", err=True, nl=False)
    finally:
        typer.echo(_CLEAR_LINE, err=True, nl=False)
