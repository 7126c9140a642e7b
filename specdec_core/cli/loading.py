"""The commands ``specdec fetch`` and ``specdec describe``: get a model, and say how it would run."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from specdec_core.cli import options
from specdec_core.cli.options import make_engine, takes

__all__ = ["describe", "fetch"]


def fetch(model: Annotated[str, typer.Argument(help="Embedded name, GGUF file or hub id.")] = "smollm2-135m") -> None:
    """Download and convert a model into the cache, once. Prints its folder.

    Example: specdec fetch smollm2-135m
    """
    from specdec_core.loading import fetch as fetch_model

    typer.echo(str(fetch_model(model, on_progress=lambda line: typer.echo(line, err=True))))


@takes(options.loading, options.drafting)
def describe(loading: dict[str, Any], drafting: dict[str, Any]) -> None:
    """Say how a model would run here (device, dtype, geometry, exactness) and why.

    Example: specdec describe -m smollm2-135m
    """
    typer.echo(json.dumps(make_engine(loading, drafting).describe().to_dict(), indent=2))
