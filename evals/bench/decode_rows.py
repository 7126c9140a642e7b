"""What one arm did on one prompt."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from evals.bench.checkpoint import CheckpointError
from evals.bench.timing import Timing

KEY = ("model", "item", "arm", "repetition")


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What an arm tells of one prompt. Times in seconds; None is what it does not tell."""

    token_ids: list[int]  # generated, never encoded again from text
    time_s: float  # prefill included
    prefill_time_s: float
    num_passes: int  # decode passes of the target
    num_prefill_tokens: int = 1  # of the generated ones, those that prefill yields
    num_draft_tokens: int | None = None
    num_accepted_tokens: int | None = None
    draft_time_s: float | None = None
    control_time_s: float | None = None
    predicted_time_s: float | None = None
    predicted_tokens: float | None = None


@dataclass(frozen=True, kw_only=True)
class Row(Measured):
    """One arm on one prompt."""

    model: str
    item: str
    part: str
    category: str
    arm: str
    repetition: int
    num_prompt_tokens: int
    repeats_earlier_answer: bool | None = None  # of retries

    @property
    def timing(self) -> Timing:
        """Of the whole request."""
        return Timing(tuple(self.token_ids), self.time_s, self.num_passes)

    @property
    def num_decode_tokens(self) -> int:
        """Tokens that decode passes yield."""
        return len(self.token_ids) - self.num_prefill_tokens

    @property
    def decode_timing(self) -> Timing | None:
        """Of what comes after prefill and the tokens it yields; None where nothing does."""
        if self.num_decode_tokens < 1:
            return None
        return Timing(tuple(self.token_ids[self.num_prefill_tokens :]), self.time_s - self.prefill_time_s)

    @property
    def acceptance_length(self) -> float | None:
        """Tokens per decode pass; None without passes."""
        return self.num_decode_tokens / self.num_passes if self.num_passes else None


def rows_of(lines: Iterable[dict[str, Any]]) -> list[Row]:
    """Rows out of a checkpoint. Raises CheckpointError where a line is no row of this bench."""
    try:
        return [Row(**line) for line in lines]
    except TypeError as error:
        raise CheckpointError(f"the checkpoint is not one of this bench: {error}") from error
