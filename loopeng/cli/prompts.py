"""``loopeng prompts``: the versions of every prompt, and the way back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loopeng.cli.options import By, Db, Json
from loopeng.errors import NotFoundError

if TYPE_CHECKING:
    from loopeng.schema import PromptVersion
    from loopeng.store import LoopStore

__all__ = ["app", "diff", "export", "list_", "log", "rollback", "show", "verify"]

app = typer.Typer(no_args_is_help=True, help="Look at prompt versions, compare them, write them out, and go back.")

_Name = Annotated[str, typer.Argument(metavar="PROMPT", help="A prompt's name, as in the task file.")]
_Version = Annotated[
    str | None, typer.Argument(metavar="VERSION", help="A version's number or id. Default: the current one.")
]


@app.command("list")
def list_(json: Json = False, db: Db = None) -> None:
    """List the prompts with their current versions.

    \b
    Example:
      loopeng prompts list
    """
    from loopeng.cli.output import note, print_json, print_text
    from loopeng.cli.places import open_store
    from loopeng.report.layout import columns, moment

    with open_store(db) as store:
        heads = [store.head(name) for name in store.prompt_names()]
        if json:
            print_json(heads)
        elif heads:
            rows: list[tuple[str, ...]] = [("prompt", "version", "text", "rules", "from", "by", "since")]
            rows += [
                (
                    head.prompt_name,
                    str(head.number),
                    head.text_hash[:8],
                    str(len(head.rules)),
                    head.source,
                    head.created_by,
                    moment(head.created_at),
                )
                for head in heads
            ]
            print_text(columns(rows, right=(1, 3)))
        else:
            note("no prompts")


@app.command()
def log(prompt: _Name, json: Json = False, db: Db = None) -> None:
    """Show a prompt's history: every version, every decision with who, when, why and on what evidence, every watch.

    \b
    Example:
      loopeng prompts log describe
    """
    from loopeng.cli.output import print_json, print_text
    from loopeng.cli.places import open_store
    from loopeng.report.history import history_text

    with open_store(db) as store:
        head = store.head(prompt)
        versions, decisions = store.prompt_versions(prompt), store.decisions(prompt_name=prompt)
        watches = store.watches(prompt)
        if json:
            print_json({"head": head.id, "versions": versions, "decisions": decisions, "watches": watches})
        else:
            print_text(history_text(head, versions, decisions, watches))


@app.command()
def show(prompt: _Name, version: _Version = None, json: Json = False, db: Db = None) -> None:
    """Print a prompt with its rules in place, as a model gets it but for the inputs.

    \b
    Example:
      loopeng prompts show describe
      loopeng prompts show describe 1
    """
    from loopeng.cli.output import print_json, print_text
    from loopeng.cli.places import open_store
    from loopeng.prompts import rendered_template

    with open_store(db) as store:
        found = _version(store, prompt, version)
        if json:
            print_json(found)
        else:
            print_text(rendered_template(found.template, found.rules))


@app.command()
def diff(
    prompt: _Name,
    before: Annotated[
        str | None, typer.Argument(metavar="BEFORE", help="A version's number or id. Default: the parent of AFTER.")
    ] = None,
    after: Annotated[
        str | None, typer.Argument(metavar="AFTER", help="A version's number or id. Default: the current one.")
    ] = None,
    words: Annotated[bool, typer.Option("--words", help="Mark single words instead of lines.")] = False,
    db: Db = None,
) -> None:
    """Compare two versions of a prompt.

    \b
    Example:
      loopeng prompts diff describe
      loopeng prompts diff describe 1 3
    """
    from loopeng.cards import unified_diff, word_diff
    from loopeng.cli.output import note, print_text
    from loopeng.cli.places import open_store
    from loopeng.prompts import rendered_template
    from loopeng.report.terminal_card import marked_diff

    with open_store(db) as store:
        new = _version(store, prompt, after)
        if before is None and new.parent_id is None:
            raise NotFoundError(f"version {new.number} of {prompt!r} has none before it")
        old = _version(store, prompt, before) if before is not None else store.prompt_version(str(new.parent_id))
        texts = [rendered_template(version.template, version.rules) for version in (old, new)]
        if texts[0] != texts[1]:
            names = [f"{prompt} version {version.number} ({version.id})" for version in (old, new)]
            lines = unified_diff(*texts).splitlines()[2:]
            body = marked_diff(word_diff(*texts)) if words else "\n".join(lines)
            print_text(f"--- {names[0]}\n+++ {names[1]}\n{body}")
        else:
            note("both versions read the same")


@app.command()
def rollback(
    prompt: _Name,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; recorded with the decision.")],
    to: Annotated[
        str | None, typer.Option("--to", metavar="VERSION", help="A version's number or id. Default: the one before.")
    ] = None,
    by: By = None,
    json: Json = False,
    db: Db = None,
) -> None:
    """Make an earlier version the current one again. Nothing is deleted; the rollback is itself a decision.

    \b
    Example:
      loopeng prompts rollback describe --reason "wrong tone in the shop"
      loopeng prompts rollback describe --to 1 --reason "start over"
    """
    from loopeng.approvals import rollback as move_back
    from loopeng.cli.output import note, print_json, print_text
    from loopeng.cli.places import open_store
    from loopeng.improve import export_on_commit
    from loopeng.settings import read_settings

    person = read_settings().person(by)
    with open_store(db) as store:
        head = move_back(store, prompt, to=to, by=person, reason=reason)
        if json:
            print_json(head)
        else:
            print_text(f"prompt {prompt} is back at version {head.number} ({head.id}), by {person}: {reason}")
        if (export_ := export_on_commit(store, prompt)) is not None:
            note(export_.error or f"written to {export_.path}")


@app.command()
def export(
    prompt: _Name,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="FILE", help="A file, or - for stdout. Default: prompt.file of the newest run."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a text that no version of the prompt has.")] = False,
    db: Db = None,
) -> None:
    """Write the current version to a file: template, rules, and which version it is. For git, and for new databases.

    \b
    Example:
      loopeng prompts export describe
      loopeng prompts export describe --to - | less
    """
    from loopeng.cli.output import note
    from loopeng.cli.places import open_store
    from loopeng.improve.exporting import export_prompt, export_target
    from loopeng.prompt_file import prompt_file_text

    with open_store(db) as store:
        head = store.head(prompt)
        if to == "-":
            typer.echo(prompt_file_text(head), nl=False)
            return
        path = Path(to) if to is not None else export_target(store, prompt)
        written = export_prompt(store, prompt, path, force=force)
        note(f"{path} {'holds' if written else 'held already'} version {head.number} of {prompt}")


@app.command()
def verify(
    prompt: Annotated[
        str | None, typer.Argument(metavar="PROMPT", help="A prompt's name. Default: all prompts.")
    ] = None,
    json: Json = False,
    db: Db = None,
) -> None:
    """Derive every text hash and every list of rules anew, and look for a decision behind every change. Exit 1 if not.

    \b
    Example:
      loopeng prompts verify
    """
    from loopeng.cli.output import print_json, print_text
    from loopeng.cli.places import open_store
    from loopeng.improve.verifying import verify_prompt

    with open_store(db) as store:
        names = [prompt] if prompt is not None else store.stored_prompt_names()
        found = [(name, each) for name in names for each in verify_prompt(store, name)]
        number = sum(len(store.stored_versions(name)) for name in names) if not found else 0
    if json:
        print_json({"verified": number, "found": [{"prompt": name} | vars(each) for name, each in found]})
    elif found:
        print_text("\n".join(f"{name}: {each.where}: {each.what}" for name, each in found))
    else:
        print_text(f"{number} version{'' if number == 1 else 's'} verified")
    if found:
        raise typer.Exit(1)


def _version(store: LoopStore, prompt: str, wanted: str | None) -> PromptVersion:
    head = store.head(prompt)
    if wanted is None:
        return head
    versions = store.prompt_versions(prompt)
    for version in versions:
        if wanted in (str(version.number), version.id):
            return version
    numbers = ", ".join(str(version.number) for version in versions)
    raise NotFoundError(f"prompt {prompt!r} has no version {wanted!r}; it has: {numbers}")
