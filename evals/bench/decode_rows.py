"""What one arm did on one prompt."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from evals.bench.checkpoint import CheckpointError
from evals.bench.timing import Timing

KEY = ("model", "item", "arm", "repetition")


@dataclass(frozen=True)
class Row:
    """One arm on one prompt. Times in seconds; None is what an arm does not tell."""

    model: str
    item: str
    part: str
    category: str
    arm: str
    repetition: int
    token_ids: list[int]  # generated, never encoded again from text
    num_prompt_tokens: int
    time_s: float  # prefill included
    prefill_time_s: float
    num_passes: int  # decode passes of the target
    num_draft_tokens: int | None = None
    num_accepted_tokens: int | None = None
    draft_time_s: float | None = None
    control_time_s: float | None = None
    predicted_time_s: float | None = None
    predicted_tokens: float | None = None
    repeats_earlier_answer: bool | None = None  # of retries

    @property
    def timing(self) -> Timing:
        """Of the whole request."""
        return Timing(tuple(self.token_ids), self.time_s, self.num_passes)

    @property
    def decode_timing(self) -> Timing | None:
        """Of what comes after prefill and the token it yields; None where nothing does."""
        if len(self.token_ids) < 2:
            return None
        return Timing(tuple(self.token_ids[1:]), self.time_s - self.prefill_time_s, self.num_passes)

    @property
    def acceptance_length(self) -> float | None:
        """Tokens per decode pass, the one that prefill yields left out; None without passes."""
        return (len(self.token_ids) - 1) / self.num_passes if self.num_passes else None


def rows_of(lines: Iterable[dict[str, Any]]) -> list[Row]:
    """Rows out of a checkpoint. Raises CheckpointError where a line is no row of this bench."""
    try:
        return [Row(**line) for line in lines]
    except TypeError as error:
        raise CheckpointError(f"the checkpoint is not one of this bench: {error}") from error
