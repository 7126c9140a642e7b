"""The command ``specdec serve``: an OpenAI-compatible endpoint."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from specdec_core.cli import options
from specdec_core.cli.options import make_engine, takes
from specdec_core.errors import RequestError

__all__ = ["serve"]

_MODEL = typer.Argument(metavar="MODEL", help="Embedded name, folder, GGUF file or hub id; like --model.")
_HOST = typer.Option(help="Address to listen on; others than this machine's own need an API key.")
_PORT = typer.Option(min=0, max=65535, help="0 is any free one.")
_API_KEY = typer.Option(envvar="SPECDEC_API_KEY", show_envvar=True, help="Bearer token that clients must send.")
_NAMES = typer.Option(help="What clients may call the model; may be repeated, the first is shown.")


@takes(options.loading, options.drafting)
def serve(
    loading: dict[str, Any],
    drafting: dict[str, Any],
    reference: Annotated[str | None, _MODEL] = None,
    host: Annotated[str, _HOST] = "127.0.0.1",
    port: Annotated[int, _PORT] = 8000,
    api_key: Annotated[str | None, _API_KEY] = None,
    served_model_name: Annotated[list[str] | None, _NAMES] = None,
) -> None:
    """Serve a model to OpenAI clients: /v1/chat/completions, /v1/completions, /v1/models, /health, /metrics.

    Example: specdec serve smollm2-135m --port 8000
    """
    try:
        from specdec_core.server import running
    except ModuleNotFoundError as error:
        raise RequestError(str(error)) from None
    running.check_open_to_others(host, api_key)
    with running.bind(host, port) as listener:
        arguments = loading if reference is None else loading | {"reference": reference}
        engine = make_engine(arguments, drafting)
        names = [*(served_model_name or [engine.model.name]), arguments["reference"]]
        typer.echo(f"{names[0]} is served at {running.url_of(listener)} (Ctrl-C ends it)", err=True)
        running.serve(engine, listener, host=host, api_key=api_key, names=names)
