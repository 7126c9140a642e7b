"""Live progress of a run on stderr: phase, samples, attempts, speed. Shown on a terminal only."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Self

from loopeng.attempt.events import (
    AttemptFinished,
    DeliveryTried,
    EngineChanged,
    EngineRetried,
    GatePlanned,
    GateProgress,
    ProgressEvent,
    PromptExported,
    PromptFileBehind,
    ProposalMoved,
    RunFinished,
    RunStarted,
    SampleFinished,
    TemplateChanged,
    WatchMoved,
)
from loopeng.cli.output import note
from loopeng.improve.watch.undoing import watch_summary
from loopeng.report.evidence import plan_text
from loopeng.report.layout import count, excerpt, rate
from loopeng.schema import Run, Usage

if TYPE_CHECKING:
    from rich.live import Live

__all__ = ["LiveProgress", "Progress", "plan_remark", "remark"]


@dataclass
class Progress:
    """What the events so far add up to. ``suite_run`` stays known while gate and hold-out run."""

    phase: str = "start"
    suite_run: Run | None = None
    rescore_run: Run | None = None
    suite_finished: bool = False
    num_samples: int = 0
    num_finished: int = 0
    num_attempts: int = 0
    num_judged: int = 0  # samples finished while we looked
    num_passed: int = 0  # of them
    num_decoded: int = 0  # attempts whose engine counts passes: the token that prefill yields is not of them
    num_retries: int = 0  # after the engine or the agent broke
    last_error: str = ""
    latency_s: float = 0.0
    usage: Usage = field(default_factory=Usage)

    def observe(self, event: ProgressEvent) -> None:
        """Take one event in."""
        match event:
            case RunStarted(run=run, num_samples=num_samples, num_finished=num_finished):
                self.phase = "run" if run.kind == "suite" else run.kind
                self.num_samples, self.num_finished = num_samples, num_finished
                self.num_attempts = self.num_judged = self.num_passed = self.num_decoded = 0
                self.latency_s, self.usage = 0.0, Usage()
                if run.kind == "suite":
                    self.suite_run = run
                elif run.kind == "rescore":
                    self.rescore_run = run
            case AttemptFinished(attempt=attempt):
                self.num_attempts += 1
                if self.phase == "rescore":
                    return  # its tokens and times are those of the original
                self.num_decoded += attempt.usage.decode_passes > 0
                self.latency_s += attempt.latency_s
                self.usage += attempt.usage
            case SampleFinished(result=result):
                self.num_finished += 1
                self.num_judged += 1
                self.num_passed += result.verdict == "pass"
            case RunFinished(run=run):
                self.suite_finished = self.suite_finished or run.kind == "suite"
            case GateProgress(split=split, arm=arm, num_finished=num_finished, num_samples=num_samples):
                self.phase = f"{split} {arm}"
                self.num_finished, self.num_samples, self.num_judged = num_finished, num_samples, 0
            case EngineRetried(error=error):
                self.num_retries += 1
                self.last_error = error
            case GatePlanned(num_samples=num_samples):
                self.phase, self.num_finished, self.num_samples, self.num_judged = "gate", 0, num_samples, 0
            case ProposalMoved(proposal_id=proposal_id, state=state):
                self.phase = f"{proposal_id} {state}"
            case _:
                pass

    def text(self) -> str:
        """What a terminal shows: where the work is, and how fast it goes."""
        parts = [self.phase, f"samples {self.num_finished}/{self.num_samples}", f"attempts {self.num_attempts}"]
        if self.num_judged:
            parts.append(f"passed {rate(self.num_passed, self.num_judged)}")
        speed = []
        if self.usage.decode_passes and self.latency_s > 0:
            speed.append(f"{self.usage.generated_tokens / self.latency_s:,.0f} tokens/s")
        if self.usage.decode_passes:
            tokens = self.usage.generated_tokens - self.num_decoded
            speed.append(f"acceptance length {tokens / self.usage.decode_passes:.2f}")
        lines = [" · ".join(parts), " · ".join(speed)]
        if self.num_retries:
            times = "once" if self.num_retries == 1 else f"{self.num_retries} times"
            lines.append(f"tried again {times} after {excerpt(self.last_error)}")
        return "\n".join(line for line in lines if line)


def remark(event: ProgressEvent) -> str | None:
    """What a person should know of an event, wherever the progress goes."""
    match event:
        case TemplateChanged(version=version, stale_proposals=stale, rules_of_file=from_file, dropped=dropped):
            rules = f"its {count(len(version.rules), 'rule')} carried over" if version.rules else "it has no rules"
            gone = f"; stale now: {', '.join(stale)}" if stale else ""
            if from_file:
                rules = f"with the {count(len(version.rules), 'rule')} of its file"
                gone = f"; no longer there: {'; '.join(map(repr, dropped))}{gone}" if dropped else gone
            return f"the template changed: prompt {version.prompt_name} is at version {version.number}, {rules}{gone}"
        case PromptFileBehind(head=head, held_number=held):
            return (
                f"note: the file of prompt {head.prompt_name} holds version {held}, but version {head.number} is in "
                f"use: 'loopeng prompts export {head.prompt_name}' writes it, or 'loopeng prompts rollback "
                f"{head.prompt_name} --to {held}' goes back"
            )
        case PromptExported(version=version, path=path, error=None):
            return f"prompt {version.prompt_name} version {version.number} written to {path}"
        case PromptExported(version=version, error=error):
            return (
                f"note: prompt {version.prompt_name} version {version.number} is in use, but not in its file: {error}"
            )
        case EngineChanged(run=run):
            return f"note: run {run.id} goes on with another engine, or other numerics, than it began with"
        case WatchMoved(watch=watch):
            return f"watch: pattern {watch.pattern_id} ({watch.proposal_id}): {watch_summary(watch)}"
        case DeliveryTried(delivery=delivery) if delivery.last_error is not None:
            what_now = "it is tried again later" if delivery.next_try_at is not None else "it is not tried again"
            return f"note: the webhook does not know of {delivery.proposal_id}: {delivery.last_error}; {what_now}"
        case _:
            return None


def plan_remark(event: ProgressEvent) -> str | None:
    """What a gate is going to do, before it does it."""
    if not isinstance(event, GatePlanned):
        return None
    return f"{event.proposal_id}: " + plan_text(
        event.num_samples, event.look, event.alpha, event.base_rate, event.power
    )


class LiveProgress:
    """A context manager that shows ``Progress`` on a terminal, and only remarks anywhere else.

    The plan of a gate is shown on a terminal, and with ``plans`` everywhere: the report has it too. What
    agents and evaluators print meanwhile goes to stderr: stdout is for the result alone.
    """

    def __init__(self, *, quiet: bool = False, plans: bool = False) -> None:
        self.progress, self._plans = Progress(), plans
        self._live: Live | None = None
        self._quiet = quiet
        self._prints = redirect_stdout(sys.stderr)

    def __enter__(self) -> Self:
        self._prints.__enter__()
        if not self._quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live
            from rich.text import Text

            self._live = Live(
                get_renderable=lambda: Text(self.progress.text(), overflow="ellipsis", no_wrap=True),
                console=Console(stderr=True),
                transient=True,
                refresh_per_second=8,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
        return self

    def __call__(self, event: ProgressEvent) -> None:
        self.progress.observe(event)
        text = remark(event)
        if text is None and (self._plans or self._live is not None):
            text = plan_remark(event)
        if text is None or (self._quiet and not isinstance(event, DeliveryTried)):  # a failure is no progress
            return
        if self._live is not None:
            self._live.console.print(text, markup=False, highlight=False)
        else:
            note(text)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._prints.__exit__(kind, error, trace)
        if self._live is not None:
            self._live.stop()
