"""``loopeng failures``: the mistakes that come back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from loopeng.cli.deciding import person
from loopeng.cli.options import By, Db, Json, Reason

if TYPE_CHECKING:
    from loopeng.schema import FailurePattern
    from loopeng.store import LoopStore

__all__ = ["app", "list_", "merge", "mute", "show", "unmute"]

app = typer.Typer(no_args_is_help=True, help="List recurring failures, show one, merge and mute them.")

_Pattern = Annotated[str, typer.Argument(metavar="PATTERN", help="A pattern's id.")]


@app.command("list")
def list_(
    prompt: Annotated[str | None, typer.Option("--prompt", metavar="NAME", help="Only those of this prompt.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="Muted and merged ones too.")] = False,
    json: Json = False,
    db: Db = None,
) -> None:
    """List failure patterns with their counts under the prompt's current version, most frequent first.

    The rate is that of the reflect samples that could be judged; fault says whose it is. Only the model's own failures
    lead to a proposal.

    \b
    Example:
      loopeng failures list
        pattern       state  fault   samples  times   rate  prompt    evaluator  category  ...
        pat-1a2b3c4d  open   model         5      5  100 %  describe  short      length.too_long
        pat-5e6f7a8b  open   grader        1      1   20 %  describe  tone       grader.error
    """
    from loopeng.cli.output import note, print_json, print_text
    from loopeng.cli.pattern_views import is_hidden, pattern_document, pattern_table, pattern_views, suggestions_text
    from loopeng.cli.places import find_database, open_store

    with open_store(db) as store:
        if prompt is not None:
            store.head(prompt)  # an unknown name is an error, not an empty list
        patterns = store.patterns(prompt)
        shown = [pattern for pattern in patterns if all_ or not is_hidden(pattern)]
        views, path = pattern_views(store, shown), find_database(db)
        if json:
            print_json([pattern_document(view, path) for view in views])
            return
        if views:
            print_text(pattern_table(views))
        else:
            note("no recurring failures")
        if len(shown) < len(patterns):
            note(f"{len(patterns) - len(shown)} muted or merged are not shown; see them with --all")
        if suggestions := suggestions_text(views, path):
            note(f"\n{suggestions}")


@app.command()
def show(
    pattern: _Pattern,
    examples: Annotated[int, typer.Option("--examples", min=0, metavar="N", help="Real outputs to show.")] = 3,
    json: Json = False,
    db: Db = None,
) -> None:
    """Show one failure pattern: real outputs, its history, what it reads like, and what to type next.

    \b
    Example:
      loopeng failures show pat-1a2b3c4d
        pat-1a2b3c4d  short: length.too_long  [open]
        prompt describe; under its current version 5/5 (100 %) reflect samples, 5 occurrences
        remedy: Use at most 8 words.
        ...
    """
    from loopeng.cli.output import print_json, print_text
    from loopeng.cli.pattern_views import pattern_document, pattern_text, pattern_views
    from loopeng.cli.places import find_database, open_store

    with open_store(db) as store:
        (view,) = pattern_views(store, [store.pattern(pattern)], examples)
        path = find_database(db)
        if json:
            document = pattern_document(view, path)
            decisions = store.pattern_decisions(view.pattern.id)
            counted = {name: document[name] for name in ("num_judged", "suggestion")}
            print_json({"pattern": view.pattern, **counted, "examples": view.examples, "decisions": decisions})
        else:
            print_text(pattern_text(store, view, path))


@app.command()
def merge(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The pattern that goes.")],
    into: Annotated[str, typer.Argument(metavar="INTO", help="The pattern that its failures count for from now on.")],
    by: By = None,
    reason: Reason = "",
    json: Json = False,
    db: Db = None,
) -> None:
    """Count the failures of one pattern, past and future ones, with another. This cannot be undone.

    \b
    Example:
      loopeng failures merge pat-5e6f7a8b pat-1a2b3c4d --reason "the same, worded anew"
        pat-5e6f7a8b is merged into pat-1a2b3c4d, which has 7 samples now
    """
    from loopeng.cli.places import open_store
    from loopeng.report.layout import count

    with open_store(db) as store:
        gone = store.pattern(source)
        kept = store.merge_patterns(gone.id, into, by=person(by), reason=reason)
        told = f"{gone.id} is merged into {kept.id}, which has {count(kept.num_samples, 'sample')} now"
        _print_outcome(store, kept, told, json=json)


@app.command()
def mute(
    pattern: _Pattern,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; recorded with the decision.")],
    by: By = None,
    json: Json = False,
    db: Db = None,
) -> None:
    """Let a failure pattern lead to no proposal. It is counted as before, and left out of the list.

    \b
    Example:
      loopeng failures mute pat-1a2b3c4d --reason "long names need long texts"
        pat-1a2b3c4d is muted
    """
    from loopeng.cli.places import open_store

    with open_store(db) as store:
        muted = store.mute_pattern(pattern, by=person(by), reason=reason)
        _print_outcome(store, muted, f"{muted.id} is muted", json=json)


@app.command()
def unmute(pattern: _Pattern, by: By = None, reason: Reason = "", json: Json = False, db: Db = None) -> None:
    """Let a muted failure pattern lead to proposals again.

    \b
    Example:
      loopeng failures unmute pat-1a2b3c4d
        pat-1a2b3c4d is open
    """
    from loopeng.cli.places import open_store

    with open_store(db) as store:
        found = store.unmute_pattern(pattern, by=person(by), reason=reason)
        _print_outcome(store, found, f"{found.id} is {found.state}", json=json)


def _print_outcome(store: LoopStore, pattern: FailurePattern, told: str, *, json: bool) -> None:
    from loopeng.cli.output import print_json, print_text

    if json:
        decision = store.pattern_decisions(pattern.id)[-1]
        print_json({"pattern": pattern, "decision": decision})
    else:
        print_text(told)
