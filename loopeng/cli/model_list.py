"""``loopeng models``: what ``engine.model`` accepts on this machine."""

from __future__ import annotations

import typer

from loopeng.cli.options import Json

__all__ = ["models", "register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(models)


def models(json: Json = False) -> None:
    """List the models that engine.model can name here: those that come along, and those already in the cache.

    \b
    Example:
      loopeng models
    """
    from loopeng.cli.output import print_json, print_text
    from loopeng.engines.specdec import list_models
    from loopeng.report.layout import columns

    found = list_models()
    if json:
        print_json([vars(choice) for choice in found])
        return
    rows: list[tuple[str, ...]] = [("engine.model", "kind", "where", "note")]
    rows += [(choice.name, choice.kind, str(choice.path or "-"), choice.note) for choice in found]
    print_text(columns(rows))
    print_text("\nAlso a local folder, a GGUF file, or a hub id such as Qwen/Qwen2.5-0.5B-Instruct.")
