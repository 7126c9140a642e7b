"""``loopeng failures``: the mistakes that come back."""

from __future__ import annotations

from typing import Annotated

import typer

from loopeng.cli.options import Db, Json

__all__ = ["app", "list_", "show"]

app = typer.Typer(no_args_is_help=True, help="List recurring failures and show one.")


@app.command("list")
def list_(
    prompt: Annotated[str | None, typer.Option("--prompt", metavar="NAME", help="Only those of this prompt.")] = None,
    json: Json = False,
    db: Db = None,
) -> None:
    """List failure patterns with their counts under the prompt's current version, most frequent first.

    \b
    Example:
      loopeng failures list
      loopeng failures list --prompt describe --json
    """
    from loopeng.cli.failure_views import pattern_rows
    from loopeng.cli.output import note, print_json, print_text
    from loopeng.cli.places import open_store
    from loopeng.report.layout import columns

    with open_store(db) as store:
        if prompt is not None:
            store.head(prompt)  # an unknown name is an error, not an empty list
        patterns = store.patterns(prompt)
        if json:
            print_json(patterns)
        elif not patterns:
            note("no recurring failures")
        else:
            print_text(columns(pattern_rows(patterns), right=(2, 3)))


@app.command()
def show(
    pattern: Annotated[str, typer.Argument(metavar="PATTERN", help="A pattern's id.")],
    examples: Annotated[int, typer.Option("--examples", min=0, metavar="N", help="Real outputs to show.")] = 3,
    json: Json = False,
    db: Db = None,
) -> None:
    """Show one failure pattern with real outputs, and how to propose a change for it.

    \b
    Example:
      loopeng failures show pat-1a2b3c4d
    """
    from loopeng.cli.failure_views import pattern_examples, pattern_text
    from loopeng.cli.output import print_json, print_text
    from loopeng.cli.places import find_database, open_store

    with open_store(db) as store:
        found = store.pattern(pattern)
        shown = pattern_examples(store, found, examples)
        if json:
            print_json({"pattern": found, "examples": shown})
        else:
            print_text(pattern_text(store, found, shown, find_database(db)))
