"""Progress, as frozen values handed to ``on_event``.

The callback runs between the steps of the work, never inside a transaction. What it raises is not caught: a broken
callback stops the run, which loses nothing and can be resumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loopeng.schema import Attempt, Delivery, PromptVersion, Run, Sample, SampleResult, Watch

__all__ = [
    "AttemptFinished",
    "DeliveryTried",
    "EngineChanged",
    "EngineRetried",
    "GatePlanned",
    "GateProgress",
    "ProgressEvent",
    "PromptExported",
    "PromptFileBehind",
    "ProposalMoved",
    "RunFinished",
    "RunStarted",
    "SampleFinished",
    "TemplateChanged",
    "WatchMoved",
]


@dataclass(frozen=True)
class RunStarted:
    """``num_samples`` counts (sample, repeat) pairs; ``num_finished`` of them were finished earlier."""

    run: Run
    num_samples: int
    num_finished: int = 0


@dataclass(frozen=True)
class AttemptFinished:
    """An attempt was evaluated and saved."""

    attempt: Attempt
    sample: Sample


@dataclass(frozen=True)
class SampleFinished:
    """No attempt is left to make for this sample."""

    result: SampleResult


@dataclass(frozen=True)
class RunFinished:
    """The run ended, or stopped at a limit: see its status."""

    run: Run


@dataclass(frozen=True)
class TemplateChanged:
    """The task file's template became a new prompt version; open proposals for the old one went stale.

    ``rules_of_file``: the rules are those of the prompt's file, not carried over; ``dropped`` had the old version only.
    """

    version: PromptVersion
    stale_proposals: tuple[str, ...] = ()
    rules_of_file: bool = False
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True)
class PromptFileBehind:
    """The prompt's file holds an earlier version than the head; the run uses the head."""

    head: PromptVersion
    held_number: int


@dataclass(frozen=True)
class PromptExported:
    """The prompt's file was written anew after its head moved, or could not be: ``error`` says why."""

    version: PromptVersion
    path: Path
    error: str | None = None


@dataclass(frozen=True)
class EngineChanged:
    """A resumed run met another engine, or the same one under other numerics."""

    run: Run
    engine: dict[str, Any]


@dataclass(frozen=True)
class EngineRetried:
    """The engine or the agent broke (infrastructure) and is tried again. Not an attempt."""

    sample: Sample
    attempt_index: int
    num_failures: int
    error: str


@dataclass(frozen=True)
class ProposalMoved:
    """A proposal changed its state."""

    proposal_id: str
    state: str
    reason: str | None = None


@dataclass(frozen=True)
class GatePlanned:
    """The test of a revision, planned before any compute: see ``GateTest``."""

    proposal_id: str
    num_samples: int
    look: int
    alpha: float
    base_rate: float | None
    power: float | None


@dataclass(frozen=True)
class GateProgress:
    """A paired comparison is under way."""

    proposal_id: str
    split: str
    arm: str
    num_finished: int
    num_samples: int


@dataclass(frozen=True)
class WatchMoved:
    """A run said something new of a committed change: its failure is fixed, came back, or is no better than before."""

    watch: Watch


@dataclass(frozen=True)
class DeliveryTried:
    """The webhook was called, or could not be: see ``last_error``."""

    delivery: Delivery


ProgressEvent = (
    RunStarted
    | AttemptFinished
    | SampleFinished
    | RunFinished
    | TemplateChanged
    | PromptFileBehind
    | PromptExported
    | WatchMoved
    | EngineChanged
    | EngineRetried
    | ProposalMoved
    | GatePlanned
    | GateProgress
    | DeliveryTried
)
