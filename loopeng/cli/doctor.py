"""``loopeng doctor``: whether this machine has what loopeng needs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from loopeng.cli.options import Db, Json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopeng.doctor import Finding

__all__ = ["doctor", "register"]

_SOMETHING_FAILS = 1


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(doctor)


def doctor(json: Json = False, db: Db = None) -> None:
    """Look at this machine: Python, libraries, torch and its device, models, database, sandbox, terminal.

    Each line is ok, warn (it can be lived with) or fail (it is in the way), and says what to do. Changes nothing.
    Exits with 1 where something fails, else with 0.

    \b
    Example:
      loopeng doctor
      loopeng doctor --json
    """
    from loopeng.cli.output import print_json, print_text

    found = []
    for each in _findings(db):
        found.append(each)
        if not json:
            print_text(_line(each))  # at once: torch takes a while
    if json:
        print_json([vars(each) for each in found])
    if any(each.status == "fail" for each in found):
        raise typer.Exit(_SOMETHING_FAILS)


def _findings(db: Path | None) -> Iterator[Finding]:
    from loopeng.doctor import examine_libraries, examine_machine, examine_sandbox, examine_surroundings

    yield from examine_libraries()
    yield from examine_machine()
    yield examine_sandbox()
    yield from _database(db)
    yield from examine_surroundings(sys.stdout.encoding)


def _database(db: Path | None) -> Iterator[Finding]:
    from loopeng.cli.places import find_database
    from loopeng.doctor import Finding, examine_database
    from loopeng.errors import NotFoundError
    from loopeng.settings import read_settings

    try:
        path = find_database(db)
    except NotFoundError as error:
        named = db is not None or read_settings().db is not None
        yield Finding("database", "warn" if named else "ok", str(error) if named else "none here yet; a run makes one")
        return
    yield from examine_database(path)


def _line(finding: Finding) -> str:
    line = f"{finding.status:<4}  {finding.name:<10}  {finding.text}"
    return line if finding.remedy is None else f"{line}\n{'':18}-> {finding.remedy}"
