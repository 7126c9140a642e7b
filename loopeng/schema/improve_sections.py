"""The sections of a task.yaml that say how its prompt is improved: reflection, gate, approval."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, field_validator

from loopeng.schema.base import Noun
from loopeng.schema.engine_section import EngineSpec
from loopeng.schema.sections import BudgetSpec

__all__ = [
    "LONGEST_WAIT_S",
    "ApprovalSpec",
    "AutoCommitSpec",
    "AutonomyName",
    "GateSpec",
    "ImproveSpec",
    "WebhookSpec",
    "parse_duration",
]

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
LONGEST_WAIT_S = 520 * 604800  # ten years: beyond it a time is a mistake, and calendars end


def parse_duration(text: str) -> float:
    """Seconds of ``7d``, ``12h``, ``30m``, ``45s`` or ``2w``. Raises ValueError.

    >>> parse_duration("7d")
    604800.0
    """
    match = _DURATION.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{text!r} is not a duration; write a number and one of s, m, h, d, w, as in 7d")
    if (seconds := float(match[1]) * _SECONDS[match[2]]) > LONGEST_WAIT_S:
        raise ValueError(f"{text!r} is longer than ten years (520w)")
    return seconds


class ImproveSpec(Noun):
    """Whether and how prompt changes are proposed."""

    enabled: bool = True
    reflector: str = Field("hints", description="hints, llm, or your own as module:name.")
    engine: EngineSpec | None = Field(None, description="The reflector's own engine; the task's if unset.")
    candidates: int = Field(1, ge=1, le=8, description="Changes to ask the reflector for; the best one is tested.")
    limits: BudgetSpec = BudgetSpec()
    min_occurrences: int = Field(5, ge=1)
    min_samples: int = Field(3, ge=1)
    min_rate: float = Field(0.05, ge=0, lt=1, description="Least failure rate, by its Wilson lower bound (95 %).")
    cool_down: str = Field("1d", description="After a rejection: how long its patterns rest. 0s is not at all.")
    max_rules: int = Field(12, ge=1)
    max_rule_tokens: int = Field(60, ge=1, description="Longest rule, estimated at 4 characters a token.")
    max_prompt_chars: int = Field(8000, ge=1, description="Largest rendered size of template plus rules.")

    @field_validator("cool_down")
    @classmethod
    def _duration(cls, value: str) -> str:
        parse_duration(value)
        return value


class GateSpec(Noun):
    """The paired comparison that a proposal must go through."""

    alpha: float = Field(0.05, gt=0, lt=1, description="Error rate of all looks at these samples together.")
    samples: int = Field(80, ge=1, description="At most this many gate samples.")
    min_power: float = Field(0.8, gt=0, lt=1, description="Less expected power makes a miss 'underpowered'.")
    max_flip_rate: float = Field(0.1, ge=0, le=1, description="Verdicts that an A/A check may flip.")
    max_error_rate: float = Field(0.1, ge=0, le=1, description="Pairs in error beyond this share stop the test.")


AutonomyName = Literal["report", "propose", "commit"]


class AutoCommitSpec(Noun):
    """What the autonomy level ``commit`` may do on its own. Beyond it a person decides as ever."""

    max_operations: int = Field(3, ge=1, description="Changed rules of one proposal.")
    max_per_day: int = Field(1, ge=1, description="Commits without a person within 24 hours, per prompt.")


class WebhookSpec(Noun):
    """Where to tell that a proposal waits. Signed as the Standard Webhooks specification says."""

    url: str = Field(pattern=r"^https?://\S+$")
    secret_env: str = Field("LOOPENG_WEBHOOK_SECRET", description="Environment variable that holds the signing secret.")


class ApprovalSpec(Noun):
    """The queue."""

    expires: str = "7d"
    autonomy: AutonomyName = Field(
        "propose", description="report: propose nothing; propose: ask a person; commit: a pass is committed unasked."
    )
    auto_commit: AutoCommitSpec = AutoCommitSpec()
    webhook: WebhookSpec | None = None

    @field_validator("expires")
    @classmethod
    def _duration(cls, value: str) -> str:
        if not parse_duration(value):
            raise ValueError(f"{value!r} must be more than 0s")
        return value
