"""What ``loopeng gate`` does."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from loopeng.attempt.harness import Harness
from loopeng.cli.output import note, print_json, print_text
from loopeng.cli.places import command, find_database, found_task_file, open_store, placed_task
from loopeng.cli.progress import LiveProgress
from loopeng.errors import LoopError, NotFoundError, UsageError
from loopeng.improve import advance
from loopeng.improve.cycle import LeaseHeldError
from loopeng.improve.gate.comparing import Trial, check_noise
from loopeng.improve.gate.planning import GatePlan, foresee_gate, ledger
from loopeng.improve.replaying import foreseen_obstacle
from loopeng.improve.spending import stopped_at_limit
from loopeng.report.evidence import LEDGER_TITLE, ledger_document, ledger_text, noise_text, plan_text
from loopeng.report.terminal import evidence_lines, state_text
from loopeng.schema import Proposal, Task, utc_now
from loopeng.settings import read_settings
from loopeng.store import hold_lease
from loopeng.task_file import load_task

if TYPE_CHECKING:
    from loopeng.schema.task import BudgetSpec
    from loopeng.store import LoopStore

__all__ = ["GateOptions", "gate_and_report"]

_UNFINISHED = ("drafting", "testing")
_ERRORS, _BUDGET, _INTERRUPTED = 4, 5, 130


@dataclass(frozen=True)
class GateOptions:
    """The options of ``loopeng gate``."""

    proposal: str
    plan: bool
    aa: bool
    json: bool
    quiet: bool
    db: Path | None

    @property
    def silent(self) -> bool:
        return self.quiet or read_settings().quiet


def gate_and_report(options: GateOptions) -> int:
    """The exit code: 4 where the test ended in an error, 5 where a limit stopped it, else 0 whatever the verdict."""
    if options.plan and options.aa:
        raise UsageError("--plan runs nothing and --aa runs the current prompt: give one of them")
    with open_store(options.db) as store:
        proposal = store.proposal(options.proposal)
        if proposal.kind == "rollback":
            raise UsageError(f"{proposal.id} takes back a change: it has no gate, its evidence is the watch")
        try:
            if options.plan:
                return _show_plan(store, proposal, options)
            if options.aa:
                return _check_noise(store, proposal, options)
            return _test(store, proposal, options)
        except KeyboardInterrupt:
            words = ("gate", proposal.id, *(("--aa",) if options.aa else ()))
            note(f"interrupted; everything is saved. Go on with:\n  {command(*words, db=find_database(options.db))}")
            return _INTERRUPTED


def _show_plan(store: LoopStore, proposal: Proposal, options: GateOptions) -> int:
    with redirect_stdout(sys.stderr):  # the user's modules may print when they are imported
        harness = Harness.build(store, _task(store, proposal, options))
    obstacle = foreseen_obstacle(harness, proposal)
    plan = (
        f"not tested: {obstacle}" if obstacle else foresee_gate(store, harness.task, _trial(store, proposal), utc_now())
    )
    if options.json:
        print_json(
            {
                "proposal": proposal.id,
                "revision": proposal.revision,
                "samples": [sample.id for sample in plan.samples] if isinstance(plan, GatePlan) else [],
                "test": plan.test if isinstance(plan, GatePlan) else None,
                "reason": None if isinstance(plan, GatePlan) else plan,
                "ledger": ledger_document(ledger(store, proposal.prompt_name)),
            }
        )
        return 0
    head = f"proposal {proposal.id}  revision {proposal.revision}, {proposal.state}"
    lines = [head, f"    {_planned(plan)}" if isinstance(plan, GatePlan) else f"    {plan}"]
    if isinstance(plan, GatePlan):
        lines.append(f"    samples: {', '.join(sample.id for sample in plan.samples)}")
    _print_with_ledger(store, proposal, "\n".join(lines))
    return 0


def _planned(plan: GatePlan) -> str:
    test = plan.test
    return plan_text(len(plan.samples), test.look, test.alpha, test.base_rate, test.power)


def _check_noise(store: LoopStore, proposal: Proposal, options: GateOptions) -> int:
    from loopeng.improve.graph import thread_name  # brings langgraph, which a plan does not need

    task, trial = _task(store, proposal, options), _trial(store, proposal)
    with hold_lease(store, thread_name(proposal.id)) as held:
        if not held:
            raise LeaseHeldError(f"another process is at work on {proposal.id}; look again in a moment")
        with LiveProgress(quiet=options.silent) as display:
            harness = Harness.build(store, task, on_event=display)
            found = check_noise(harness, trial, _limits(task, options))
    num_flips, num_pairs = found.pairs.fixed + found.pairs.broken, found.pairs.num_pairs
    if options.json:
        print_json(
            {
                "proposal": proposal.id,
                "revision": proposal.revision,
                "num_flips": num_flips,
                "num_pairs": num_pairs,
                "num_errors": found.num_errors,
                "max_flip_rate": task.gate.max_flip_rate,
                "flipped_samples": [*found.fixed_samples, *found.broken_samples],
            }
        )
    else:
        print_text(noise_text(num_flips, num_pairs, found.num_errors, task.gate.max_flip_rate))
    return 0 if num_pairs else _ERRORS


def _test(store: LoopStore, proposal: Proposal, options: GateOptions) -> int:
    """Finish what is unfinished, then show the newest report there is."""
    if proposal.state in _UNFINISHED:
        with LiveProgress(quiet=options.silent, plans=True) as display:
            task = _task(store, proposal, options)
            task = task.model_copy(
                update={"improve": task.improve.model_copy(update={"limits": _limits(task, options)})}
            )
            proposal = advance(store, proposal.id, harness=Harness.build(store, task, on_event=display))
    report = store.gate_report(proposal.id, proposal.revision, "gate")
    holdout = store.gate_report(proposal.id, proposal.revision, "holdout")
    if options.json:
        print_json(
            {
                "proposal": proposal.id,
                "revision": proposal.revision,
                "state": proposal.state,
                "state_reason": proposal.state_reason,
                "gate": report,
                "holdout": holdout,
                "ledger": ledger_document(ledger(store, proposal.prompt_name)),
            }
        )
    else:
        state = state_text(proposal.state, proposal.state_reason)
        lines = [f"proposal {proposal.id}  revision {proposal.revision}, {state}", *evidence_lines(report, holdout)]
        _print_with_ledger(store, proposal, "\n    ".join(lines))
    if report is not None:
        return _ERRORS if report.verdict == "error" else 0
    return _BUDGET if stopped_at_limit(proposal) else 0


def _print_with_ledger(store: LoopStore, proposal: Proposal, text: str) -> None:
    entries = ledger_text(ledger(store, proposal.prompt_name), proposal.id)
    told = [LEDGER_TITLE, *(f"    {line}" for line in entries.splitlines())] if entries else []
    print_text("\n".join([text, *([""] if told else []), *told]))


def _trial(store: LoopStore, proposal: Proposal) -> Trial:
    if not proposal.revision:
        raise NotFoundError(f"{proposal.id} is {proposal.state}: {proposal.state_reason or 'no text is drafted yet'}")
    return Trial(proposal, store.revision(proposal.id), store.prompt_version(proposal.base_version_id), "gate")


def _task(store: LoopStore, proposal: Proposal, options: GateOptions) -> Task:
    """The task as the proposal was made for, its folder where it is now."""
    return placed_task(store.task(proposal.task_hash), find_database(options.db))


def _limits(task: Task, options: GateOptions) -> BudgetSpec:
    """``improve.limits`` as they are in the file now: raised there, a stopped test goes on."""
    path = found_task_file(task.path, find_database(options.db))
    try:
        with redirect_stdout(sys.stderr):
            return load_task(path).improve.limits if path is not None else task.improve.limits
    except LoopError:  # the file is being edited; what the proposal was made with still stands
        return task.improve.limits
