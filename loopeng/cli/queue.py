"""``loopeng queue``: the proposals that wait for a person, their evidence, and the decision."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from loopeng.cli.deciding import ask_for, find_card, person, print_outcome, refuse_blind, refuse_untested
from loopeng.cli.options import By, Db, Json, Now, Reason, Seen
from loopeng.errors import UsageError

__all__ = ["app", "approve", "edit", "list_", "rebase", "reject", "show", "snooze"]

app = typer.Typer(no_args_is_help=True, help="Look at proposed prompt changes and decide them.")

_ProposalId = Annotated[str, typer.Argument(metavar="PROPOSAL", help="A proposal's id, or its unique beginning.")]


@app.command("list")
def list_(
    show_all: Annotated[
        bool, typer.Option("--all", help="Also those already decided, expired, stale or archived.")
    ] = False,
    json: Json = False,
    db: Db = None,
) -> None:
    """List the proposals that wait for a decision.

    \b
    Example:
      loopeng queue list
      loopeng queue list --all --json
    """
    from loopeng.cli.output import note, print_json, print_text
    from loopeng.cli.places import find_database, open_store
    from loopeng.cli.proposal_views import proposal_document, proposal_view, queue_hints, queue_rows
    from loopeng.report.layout import columns
    from loopeng.schema import OPEN_STATES

    with open_store(db) as store:
        proposals = store.proposals(states=None if show_all else OPEN_STATES)
        if json:
            views = (proposal_view(store, proposal, find_database(db)) for proposal in proposals)
            print_json([proposal_document(view) for view in views if view is not None])
        elif proposals:
            print_text(columns(queue_rows(store, proposals)))
            if hints := queue_hints(proposals, find_database(db)):
                print_text(f"\n{hints}")
        else:
            note("no proposals" if show_all else "nothing waits for a decision")
        if not (show_all or json) and (hints := queue_hints(store.proposals(states=["stale"]), find_database(db))):
            note(f"\n{hints}" if proposals else hints)


@app.command()
def show(proposal: _ProposalId, json: Json = False, db: Db = None) -> None:
    """Show a proposal's card: the change, why, real outputs, the paired counts, and the commands that decide it.

    \b
    Example:
      loopeng queue show prop-1a2b3c4d
    """
    from loopeng.cli.output import print_json, print_text
    from loopeng.cli.places import find_database, open_store
    from loopeng.cli.proposal_views import card_commands
    from loopeng.report.terminal_card import card_document, card_text

    with open_store(db) as store:
        card = find_card(store, proposal)
        commands = card_commands(card, find_database(db))
        if json:
            print_json(card_document(card, commands))
        else:
            print_text(card_text(card, commands))


@app.command()
def approve(
    proposal: _ProposalId,
    seen: Seen = None,
    by: By = None,
    reason: Reason = "",
    accept_untested: Annotated[
        bool, typer.Option("--accept-untested", help="Approve without evidence of improvement; recorded.")
    ] = False,
    json: Json = False,
    db: Db = None,
) -> None:
    """Approve the text you saw: it becomes the prompt's current version.

    \b
    Example:
      loopeng queue approve prop-1a2b3c4d --seen 9f8e7d6c --accept-untested
    """
    from loopeng.approvals import approve as decide
    from loopeng.cli.places import open_store

    who = person(by)
    with open_store(db) as store:
        card = find_card(store, proposal)
        if seen:
            store.check_decidable(card.id, card.revision.revision, seen)
        else:
            refuse_blind(card, db)
        if not accept_untested:
            refuse_untested(card)
        seen = seen or ask_for(card, "approve", db)
        outcome = decide(store, card.id, by=who, seen=seen, accept_untested=accept_untested, reason=reason)
        print_outcome(store, outcome, json=json, db=db)


@app.command()
def reject(
    proposal: _ProposalId,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why; recorded. The same text is not proposed again.")
    ],
    seen: Seen = None,
    by: By = None,
    json: Json = False,
    db: Db = None,
) -> None:
    """Reject a proposal. Its text is not proposed again; llm and your own reflectors read the reason, hints does not.

    \b
    Example:
      loopeng queue reject prop-1a2b3c4d --seen 9f8e7d6c --reason "too strict for long names"
    """
    from loopeng.approvals import reject as decide
    from loopeng.cli.places import open_store

    who = person(by)
    with open_store(db) as store:
        card = find_card(store, proposal)
        seen = seen or ask_for(card, "reject", db)
        print_outcome(store, decide(store, card.id, by=who, seen=seen, reason=reason), json=json, db=db)


@app.command()
def edit(
    proposal: _ProposalId,
    rule: Annotated[
        list[str] | None, typer.Option("--rule", metavar="TEXT", help="A rule of the new list; may be repeated.")
    ] = None,
    rules_file: Annotated[
        Path | None, typer.Option("--rules-file", metavar="FILE", help="Or a file with one rule per line.")
    ] = None,
    seen: Seen = None,
    by: By = None,
    reason: Reason = "",
    now: Now = False,
    json: Json = False,
    db: Db = None,
) -> None:
    """Replace the proposal's rules by your own list: a new revision, tested again before anyone can approve it.

    Without --rule and --rules-file, $VISUAL or $EDITOR opens, one rule per line. 'loopeng work' or --now tests it.

    \b
    Example:
      loopeng queue edit prop-1a2b3c4d
      loopeng queue edit prop-1a2b3c4d --seen 9f8e7d6c --rule "Write exactly one sentence." --now
    """
    from loopeng.cli.editing import Edit, rules_from_editor, rules_from_file, save_edit
    from loopeng.cli.places import find_database, open_store

    if rule and rules_file:
        raise UsageError("give --rule or --rules-file, not both")
    who = person(by)
    with open_store(db) as store:
        card = find_card(store, proposal)
        if rule or rules_file:
            rules = rules_from_file(rules_file) if rules_file else tuple(rule or ())
            seen = seen or ask_for(card, "edit", db)
        else:
            rules, seen = rules_from_editor(card), seen or card.text_hash
        change = Edit(rules, who, seen, reason)
        print_outcome(store, save_edit(store, card, find_database(db), change, now=now), json=json, db=db)


@app.command()
def snooze(
    proposal: _ProposalId,
    duration: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="How long: 30m, 12h, 2d ...; 0s wakes it now.")
    ] = None,
    until: Annotated[
        datetime | None,
        typer.Option("--until", formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M"], help="Or until a day, or a time of it, here."),
    ] = None,
    seen: Seen = None,
    by: By = None,
    reason: Reason = "",
    json: Json = False,
    db: Db = None,
) -> None:
    """Put a proposal aside for a while. The time asleep is added to its expiry; it can be decided all the same.

    \b
    Example:
      loopeng queue snooze prop-1a2b3c4d --for 2d --reason "after the release"
      loopeng queue snooze prop-1a2b3c4d --until 2026-12-01
      loopeng queue snooze prop-1a2b3c4d --for 0s
    """
    from loopeng.approvals import snooze as put_aside
    from loopeng.cli.places import open_store

    if duration is not None and until is not None:
        raise UsageError("--for and --until both say when it wakes: give one of them")
    if duration is None and until is None:
        raise UsageError("until when? give --for TIME or --until DAY")
    try:
        end, who = until.astimezone() if until is not None else None, person(by)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"--until {until:%Y-%m-%d}: no such day in this time zone") from error
    with open_store(db) as store:
        outcome = put_aside(store, proposal, by=who, until=end, for_=duration, seen=seen, reason=reason)
        print_outcome(store, outcome, json=json, db=db)


@app.command()
def rebase(
    proposal: _ProposalId, by: By = None, reason: Reason = "", now: Now = False, json: Json = False, db: Db = None
) -> None:
    """Make a stale proposal one for the prompt's current version: the same changes, tested again.

    \b
    Example:
      loopeng queue rebase prop-1a2b3c4d
      loopeng queue rebase prop-1a2b3c4d --now
    """
    from loopeng.cli.editing import save_rebase
    from loopeng.cli.places import find_database, open_store

    with open_store(db) as store:
        outcome = save_rebase(store, proposal, find_database(db), by=person(by), reason=reason, now=now)
        print_outcome(store, outcome, json=json, db=db)
