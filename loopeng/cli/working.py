"""What ``loopeng work`` does: one round, or rounds until Ctrl-C."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loopeng.attempt.events import DeliveryTried, ProgressEvent
from loopeng.cli.output import note, print_json, print_text
from loopeng.cli.places import command, find_database, found_task_file, placed_task
from loopeng.cli.progress import LiveProgress
from loopeng.cli.proposal_views import proposal_view
from loopeng.errors import UsageError
from loopeng.improve import work
from loopeng.report.layout import moment
from loopeng.report.notices import limit_to_raise
from loopeng.report.terminal import proposal_text, state_text
from loopeng.schema.task import parse_duration
from loopeng.settings import read_settings
from loopeng.store import LoopStore

if TYPE_CHECKING:
    from loopeng.attempt.harness import Harness
    from loopeng.improve import Step
    from loopeng.schema import Delivery, Proposal, Task

__all__ = ["Patience", "work_and_report"]

_INTERRUPTED = 130
_ERROR, _LIMIT = 4, 5
_MAX_TRIES = 5  # of what breaks, while nobody changes anything
_LONGEST_PAUSE_S = 3600.0


@dataclass
class Patience:
    """What a round leaves alone: a proposal that broke is tried again later and later, and in the end not at all."""

    pause_s: float
    clock: Callable[[], float] = time.monotonic
    _left: dict[str, tuple[Proposal, int, float]] = field(default_factory=dict)  # as it was left, tries, when again

    def note(self, steps: Iterable[Step]) -> None:
        """Take in what became of a round."""
        for step in steps:
            earlier, tries, _ = self._left.pop(step.after.id, (None, 0, 0.0))
            if step.outcome in ("broken", "limit"):
                tries = tries + 1 if earlier is not None and earlier.state == step.after.state else 1
                pause_s = min(self.pause_s * 2**tries, _LONGEST_PAUSE_S)
                gives_up = tries >= _MAX_TRIES or step.outcome == "limit"
                again = float("inf") if gives_up else self.clock() + pause_s
                self._left[step.after.id] = (step.after, tries, again)

    @property
    def skip(self) -> list[Proposal]:
        """Not to be tried yet, unless somebody has changed it since."""
        return [left for left, _, again in self._left.values() if again > self.clock()]


def work_and_report(*, follow: bool, every: str, as_json: bool, quiet: bool, db: Path | None) -> int:
    """The exit code: of what stopped the work on a proposal, a limit first; 0 where nothing did."""
    database, pause_s = find_database(db), _seconds(every)
    rounds = _Rounds(database, as_json, quiet or read_settings().quiet)
    with LoopStore.open(database) as store:
        try:
            _go_round(store, rounds, pause_s if follow else None)
            code = _exit_code(rounds.steps)
        except KeyboardInterrupt:
            note(f"interrupted; everything is saved. Go on with:\n  {command('work', db=database)}")
            code = _INTERRUPTED
        if as_json:
            print_json(rounds.document() | {"exit_code": code})
        elif not rounds.steps and not rounds.deliveries and code != _INTERRUPTED:
            note(_nothing_to_do(store))
    return code


def _go_round(store: LoopStore, rounds: _Rounds, pause_s: float | None) -> None:
    """Once, or with a pause between the rounds until Ctrl-C."""
    patience = Patience(pause_s or 0.0)
    patience.note(rounds.work(store, patience))
    while pause_s is not None:
        time.sleep(pause_s)
        patience.note(rounds.work(store, patience))


@dataclass
class _Rounds:
    """What was done so far. Text is printed round by round, a document in the end."""

    database: Path
    as_json: bool
    quiet: bool
    steps: list[Step] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)

    def work(self, store: LoopStore, patience: Patience) -> list[Step]:
        known = {(each.proposal_id, each.revision): each.last_error for each in self.deliveries}
        tried: list[Delivery] = []

        def observe(event: ProgressEvent) -> None:
            if not isinstance(event, DeliveryTried):
                display(event)
            elif known.get((event.delivery.proposal_id, event.delivery.revision), "") != event.delivery.last_error:
                tried.append(event.delivery)

        with LiveProgress(quiet=self.quiet) as display:
            steps = work(
                store,
                harness_for=lambda task: _harness(store, task, self.database, display),
                skip=patience.skip,
                on_event=observe,
            )
        last = {step.after.id: (step.outcome, step.after) for step in self.steps}
        news = [step for step in steps if last.get(step.after.id) != (step.outcome, step.after)]
        self.steps += news
        self.deliveries += tried
        if not self.as_json:
            _print(store, news, tried, self.database)
        return steps

    def document(self) -> dict[str, Any]:
        return {
            "proposals": [
                {
                    "id": step.after.id,
                    "outcome": step.outcome,
                    "before": step.before.state,
                    "state": step.after.state,
                    "state_reason": step.after.state_reason,
                    "revision": step.after.revision,
                    "error": None if step.error is None else str(step.error),
                }
                for step in self.steps
            ],
            "deliveries": self.deliveries,
        }


def _harness(store: LoopStore, task: Task, database: Path, display: LiveProgress) -> Harness:
    from loopeng.attempt.harness import Harness

    return Harness.build(store, placed_task(task, database), on_event=display)


def _print(store: LoopStore, steps: Sequence[Step], deliveries: Sequence[Delivery], database: Path) -> None:
    for step in steps:
        print_text(_step_text(store, step, database))
    for delivery in deliveries:
        print_text(_delivery_text(delivery))


def _step_text(store: LoopStore, step: Step, database: Path) -> str:
    proposal = step.after
    if step.outcome == "held":
        return f"{proposal.id}: another process is at work on it"
    lines = [f"{proposal.id}  {step.before.state} -> {state_text(proposal.state, proposal.state_reason)}"]
    if step.outcome == "limit":
        lines += _how_to_go_on(store, proposal, database)
    view = proposal_view(store, proposal, database) if proposal.decidable else None
    return "\n".join([*lines, proposal_text(view)] if view is not None else lines)


def _how_to_go_on(store: LoopStore, proposal: Proposal, database: Path) -> list[str]:
    """What is used up must be raised in the task file, which ``propose`` reads and ``work`` does not."""
    key = limit_to_raise(proposal.state_reason, "improve.limits")
    if key is None:
        return [f"    go on with  {command('work', db=database)}"]
    path = found_task_file(store.task(proposal.task_hash).path, database) or Path("TASK")
    return [f"    raise {key} in the task file, then  {command('propose', db=database, task_path=path)}"]


def _delivery_text(delivery: Delivery) -> str:
    what = f"webhook for {delivery.proposal_id} revision {delivery.revision}"
    if delivery.delivered_at is not None:
        return f"{what}: delivered at try {delivery.num_tries}"
    again = f"next try {moment(delivery.next_try_at)}" if delivery.next_try_at is not None else "given up"
    return f"{what}: {delivery.last_error}; {again}"


def _exit_code(steps: Sequence[Step]) -> int:
    last = {step.after.id: step for step in steps}.values()
    if any(step.outcome == "limit" for step in last):
        return _LIMIT
    broken = [step for step in last if step.outcome == "broken"]
    return next((_ERROR if step.error is None else step.error.exit_code for step in broken), 0)


def _nothing_to_do(store: LoopStore) -> str:
    """Calls that failed are waiting for their next try."""
    waiting = [_delivery_text(each) for each in store.deliveries() if each.next_try_at is not None]
    return "\n".join(["nothing to do" if not waiting else "nothing to do now", *waiting])


def _seconds(every: str) -> float:
    try:
        seconds = parse_duration(every)
    except ValueError as error:
        raise UsageError(f"--every: {error}") from error
    if seconds < 1:
        raise UsageError(f"--every: {every!r} is less than a second")
    return seconds
