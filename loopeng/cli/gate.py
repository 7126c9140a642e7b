"""``loopeng gate``: the test behind a proposal, before it, during it, and afterwards."""

from __future__ import annotations

from typing import Annotated

import typer

from loopeng.cli.options import Db, Json, Quiet

__all__ = ["gate", "register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(gate)


def gate(
    proposal: Annotated[str, typer.Argument(metavar="PROPOSAL", help="A proposal's id, or its unique beginning.")],
    plan: Annotated[
        bool, typer.Option("--plan", help="Show samples, look, alpha, expected power and the ledger; run nothing.")
    ] = False,
    aa: Annotated[
        bool, typer.Option("--aa", help="Run the current prompt against itself: how many verdicts are chance.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
    db: Db = None,
) -> None:
    """Test a proposal on the gate samples, or finish and show its test.

    \b
    Example:
      loopeng gate prop-1a2b3c4d --plan
      loopeng gate prop-1a2b3c4d
      loopeng gate prop-1a2b3c4d --aa
    """
    from loopeng.cli.gating import GateOptions, gate_and_report

    raise typer.Exit(gate_and_report(GateOptions(proposal, plan=plan, aa=aa, json=json, quiet=quiet, db=db)))
