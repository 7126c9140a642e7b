"""The commands ``specdec fetch`` and ``specdec describe``: get a model, and say how it would run."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from specdec_core.cli.options import Device, Dtype, Exactness, Model

__all__ = ["describe", "fetch"]


def fetch(model: Annotated[str, typer.Argument(help="Embedded name, GGUF file or hub id.")] = "smollm2-135m") -> None:
    """Download and convert a model into the cache, once. Prints its folder.

    Example: specdec fetch smollm2-135m
    """
    from specdec_core.loading import fetch as fetch_model

    typer.echo(str(fetch_model(model, on_progress=lambda line: typer.echo(line, err=True))))


def describe(
    model: Model = "smollm2-135m", device: Device = "auto", dtype: Dtype = "auto", exactness: Exactness = None
) -> None:
    """Say how a model would run here (device, dtype, geometry, exactness) and why.

    Example: specdec describe -m smollm2-135m
    """
    from specdec_core.engine import load_engine

    choice: dict[str, Any] = {"device": device, "dtype": dtype, "exactness": exactness}
    engine = load_engine(model, **choice)
    typer.echo(json.dumps(engine.describe().to_dict(), indent=2))
