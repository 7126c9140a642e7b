"""Progress, as frozen values handed to ``on_event``.

The callback runs between the steps of the work, never inside a transaction. What it raises is not caught: a broken
callback stops the run, which loses nothing and can be resumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from loopeng.schema import Attempt, Delivery, PromptVersion, Run, Sample, SampleResult

__all__ = [
    "AttemptFinished",
    "DeliveryTried",
    "EngineChanged",
    "EngineRetried",
    "GateProgress",
    "ProgressEvent",
    "ProposalMoved",
    "RunFinished",
    "RunStarted",
    "SampleFinished",
    "TemplateChanged",
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
    """The task file's template became a new prompt version; open proposals for the old one went stale."""

    version: PromptVersion
    stale_proposals: tuple[str, ...] = ()


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
class GateProgress:
    """A paired comparison is under way."""

    proposal_id: str
    split: str
    arm: str
    num_finished: int
    num_samples: int


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
    | EngineChanged
    | EngineRetried
    | ProposalMoved
    | GateProgress
    | DeliveryTried
)
