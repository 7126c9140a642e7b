"""``loopeng runs``: what was run, and how it went."""

from __future__ import annotations

from typing import Annotated

import typer

from loopeng.cli.options import Db, Json

__all__ = ["app", "diff", "list_", "show"]

app = typer.Typer(no_args_is_help=True, help="List runs, show one, compare two.")


@app.command("list")
def list_(
    task: Annotated[str | None, typer.Option("--task", metavar="NAME", help="Only runs of this task.")] = None,
    kind: Annotated[
        str,
        typer.Option(
            "--kind", metavar="KIND", help="suite, rescore, live, reproduce, reflect, screen, gate, holdout, all."
        ),
    ] = "suite",
    limit: Annotated[int, typer.Option("--limit", min=1, max=2**31 - 1, metavar="N", help="The newest N.")] = 20,
    json: Json = False,
    db: Db = None,
) -> None:
    """List runs, newest first.

    \b
    Example:
      loopeng runs list
      loopeng runs list --kind all --limit 50 --json
    """
    from loopeng.cli.output import note, print_json, print_text
    from loopeng.cli.places import open_store
    from loopeng.cli.run_views import run_kind, run_rows, summary_document
    from loopeng.report.layout import columns
    from loopeng.run_summary import summarize

    wanted = run_kind(kind)
    with open_store(db) as store:
        found = store.runs(task_name=task, kind=wanted, limit=limit)
        summaries = [summarize(store, run.id) for run in found]
        if json:
            print_json([{"run": summary.run, **summary_document(summary)} for summary in summaries])
        elif summaries:
            print_text(columns(run_rows(store, summaries)))
        else:
            kinds = sorted({run.kind for run in store.runs(task_name=task, limit=None)})
            note(
                f"no runs of kind {kind}; there are some of kind {', '.join(kinds)}: see --kind" if kinds else "no runs"
            )


@app.command()
def show(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's id, its unique beginning, or 'latest'.")],
    json: Json = False,
    db: Db = None,
) -> None:
    """Show one run: rates per split, costs, the failures it showed, the proposals that wait.

    'loopeng report' has intervals, rates by evaluator and every sample, and writes files.

    \b
    Example:
      loopeng runs show run-1a2b3c4d
    """
    from loopeng.cli.output import print_json, print_text
    from loopeng.cli.places import find_database, open_store
    from loopeng.cli.run_names import named_run
    from loopeng.cli.run_views import report_text, run_document, run_task
    from loopeng.run_summary import summarize

    database = find_database(db)
    with open_store(db) as store:
        row = named_run(store, run)
        task = run_task(store, row)
        summary = summarize(store, row.id)
        proposals = [proposal for proposal in store.proposals(prompt_name=row.prompt_name) if proposal.decidable]
        if json:
            print_json(run_document(store, summary, task, proposals, database))
        else:
            print_text(report_text(store, summary, task, proposals, database))


@app.command()
def diff(
    before: Annotated[str, typer.Argument(metavar="BEFORE", help="A run's id, its unique beginning, or 'latest'.")],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="The run to compare with it.")],
    answers: Annotated[
        int, typer.Option("--answers", min=0, max=1000, metavar="N", help="Show both answers for so many samples.")
    ] = 3,
    json: Json = False,
    db: Db = None,
) -> None:
    """Compare two runs pair by pair: what the second one fixed and broke, and how much that is worth.

    Exits with 0 whatever the difference is. 'loopeng rescore' compares a run with itself under other evaluators.

    \b
    Example:
      loopeng runs diff run-1a2b3c4d latest
    """
    from loopeng.cli.output import print_json, print_text
    from loopeng.cli.places import open_store
    from loopeng.cli.run_names import named_run
    from loopeng.cli.run_views import diff_answers
    from loopeng.report.diff_text import diff_document, diff_text
    from loopeng.run_diff import diff_runs

    with open_store(db) as store:
        found = diff_runs(store, named_run(store, before).id, named_run(store, after).id)
        shown = diff_answers(store, found, most=answers)
        if json:
            print_json(diff_document(found, shown))
        else:
            print_text(diff_text(found, shown))
