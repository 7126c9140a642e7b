"""What happens to one sample: attempts, their results, and the run they belong to."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field, model_validator

from loopeng.schema.base import FaultSide, Noun

__all__ = [
    "RESCORE_OF",
    "Arm",
    "Attempt",
    "EvalResult",
    "Message",
    "Run",
    "RunKind",
    "RunStatus",
    "SampleResult",
    "Usage",
    "Verdict",
]

Verdict = Literal["pass", "fail", "error"]
RunKind = Literal["suite", "rescore", "live", "reproduce", "reflect", "screen", "gate", "holdout"]
RunStatus = Literal["running", "finished", "interrupted", "budget"]
RESCORE_OF = "rescore_of"  # the key of a run's engine that holds the original's id
Arm = Literal["baseline", "candidate", "repeat"]  # repeat: the baseline once more, for the A/A check


class Message(Noun):
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


class Usage(Noun):
    """Tokens and passes an attempt cost."""

    prompt_tokens: int = 0
    generated_tokens: int = 0
    decode_passes: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in type(self).model_fields})

    @property
    def total_tokens(self) -> int:
        """Prompt and generated tokens together."""
        return self.prompt_tokens + self.generated_tokens


class EvalResult(Noun):
    """One evaluator's word on one attempt.

    ``reason`` is for people and may hold the target; ``feedback`` is what the model may see. ``error`` set means the
    evaluator broke: then score and passed are None, and the attempt is in error, never failed.
    """

    evaluator: str
    score: float | None = Field(None, ge=0, le=1)
    passed: bool | None = None
    reason: str = ""
    feedback: str = ""
    category: str | None = Field(None, description="Of the evaluator's closed set; None on a pass.")
    remedy: str | None = Field(None, description="The rule that would prevent this failure.")
    fault_side: FaultSide = "model"
    error: str | None = None
    metadata: dict[str, Any] = {}
    latency_s: float = 0.0

    @property
    def side_of_error(self) -> FaultSide:
        """Whose fault an error is: the evaluator's own, but where it says otherwise. It is never the model's."""
        return "grader" if self.fault_side == "model" else self.fault_side

    @model_validator(mode="after")
    def _error_is_not_a_verdict(self) -> EvalResult:
        if self.error is not None and (self.score is not None or self.passed is not None):
            raise ValueError("a result in error has neither score nor passed")
        return self


class Attempt(Noun):
    """One generation for a sample. Unique by (run_id, sample_id, repeat, attempt_index)."""

    run_id: str
    sample_id: str
    repeat: int = 0
    attempt_index: int = 0
    policy: str = "first"  # first, or the move that led here: resample, feedback, critique
    seed: int
    temperature: float = 0.0
    messages: tuple[Message, ...]
    text: str = ""
    token_ids: tuple[int, ...] | None = None
    finish_reason: str | None = None
    trajectory: Any = None
    usage: Usage = Usage()
    latency_s: float = 0.0
    fingerprint: str | None = Field(None, description="Digest of the engine's numerics; None where there is none.")
    duplicate_of: int | None = Field(None, description="Index of the earlier attempt with the same text.")
    verdict: Verdict
    score: float | None = None
    results: tuple[EvalResult, ...] = ()
    error: str | None = None
    created_at: datetime

    @property
    def failed_results(self) -> tuple[EvalResult, ...]:
        """The results that did not pass."""
        return tuple(result for result in self.results if result.passed is False)


class Run(Noun):
    """One pass over samples under one prompt version."""

    id: str
    kind: RunKind
    task_name: str
    task_hash: str
    prompt_name: str
    prompt_version_id: str
    proposal_id: str | None = None
    revision: int | None = None
    arm: Arm | None = None
    seed: int = 0
    status: RunStatus = "running"
    stop_reason: str | None = None
    engine: dict[str, Any] = {}  # describe() of the engine, numerics included; of a rescore, the original run's
    created_at: datetime
    finished_at: datetime | None = None

    @property
    def rescore_of(self) -> str | None:
        """Of kind rescore: the run whose outputs were judged again."""
        return self.engine.get(RESCORE_OF)

    @property
    def own_agent(self) -> str | None:
        """The user's own agent as reports name it; None where the built-in one answered, or nobody noted who did."""
        agent = self.engine.get("agent", "llm")
        return None if agent == "llm" else agent or "an object of that process"


class SampleResult(Noun):
    """How a sample ended in a run: written once, when no attempt is left to make. Unique by (run, sample, repeat)."""

    run_id: str
    sample_id: str
    repeat: int = 0
    split: str
    first_verdict: Verdict
    verdict: Verdict  # of the best attempt
    score: float | None = None
    best_attempt_index: int
    num_attempts: int
