"""What a generation cost, and under which numerics it was made.

Counts are stored; rates are derived. The words are vLLM's: *draft* tokens are proposed, *accepted* ones agree with the
target, a *recovered* token is the target's own at the first mismatch, a *bonus* token is the free one after a fully
accepted draft.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import Any

__all__ = ["DecodeStats", "NumericsFingerprint", "SourceStats"]


@dataclass(slots=True)
class SourceStats:
    """What one drafter did in one generation."""

    num_drafts: int = 0  # passes that verified a draft of this source
    num_draft_tokens: int = 0
    num_accepted_tokens: int = 0
    time_s: float = 0.0  # reading the prompt, proposing (also what was not verified), observing


@dataclass(slots=True)
class DecodeStats:
    """Counts of one generation.

    >>> stats = DecodeStats(num_generated_tokens=9, num_decode_passes=4, num_draft_tokens=8, num_accepted_tokens=4)
    >>> stats.acceptance_length, stats.acceptance_rate
    (2.0, 0.5)
    """

    num_prompt_tokens: int = 0
    num_cached_prompt_tokens: int = 0  # of these, not computed again: their keys and values were at hand
    num_generated_tokens: int = 0
    num_prefill_passes: int = 0
    num_decode_passes: int = 0
    num_drafts: int = 0  # passes that had at least one draft token
    num_draft_tokens: int = 0
    num_accepted_tokens: int = 0
    num_accepted_by_position: list[int] = field(default_factory=list)
    prefill_time_s: float = 0.0
    decode_time_s: float = 0.0  # everything after prefill, drafting included
    draft_time_s: float = 0.0  # of all sources; reading the prompt is part of prefill, the rest of decode time
    control_time_s: float = 0.0  # deciding what to draft, in decode time but for a request's beginning
    predicted_time_s: float = 0.0  # decode passes and their drafts, as expected before each; 0: nothing predicted
    predicted_tokens: float = 0.0
    sources: dict[str, SourceStats] = field(default_factory=dict)  # by drafter name
    smallest_margin: float | None = None  # see see_margins; None where it is not measured

    def see_margins(self, margins: Iterable[float]) -> None:
        """Keep the smallest top-2 margin at the emitted positions.

        Its unit is the model's logits (nats at temperature 1): an error of half as much in two logits could have
        changed the text. Measured in law exactness by match verification; bits that agree need no margin.
        """
        for margin in margins:
            if math.isfinite(margin) and (self.smallest_margin is None or margin < self.smallest_margin):
                self.smallest_margin = margin

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted / drafted; None where nothing was drafted."""
        return self.num_accepted_tokens / self.num_draft_tokens if self.num_draft_tokens else None

    @property
    def acceptance_length(self) -> float | None:
        """Tokens emitted per decode pass; the token that prefill yields is not counted. 1.0 is plain decoding."""
        if not self.num_decode_passes:
            return None
        return (self.num_generated_tokens - 1) / self.num_decode_passes

    @property
    def draft_length(self) -> float | None:
        """Draft tokens per pass that had a draft."""
        return self.num_draft_tokens / self.num_drafts if self.num_drafts else None

    @property
    def tokens_per_second(self) -> float | None:
        """Generated tokens over prefill and decode time together."""
        total_time_s = self.prefill_time_s + self.decode_time_s
        return self.num_generated_tokens / total_time_s if total_time_s > 0 else None

    @property
    def decode_tokens_per_second(self) -> float | None:
        """Tokens of decode passes over their time, drafting included: what a prediction is compared with."""
        num_tokens = self.num_generated_tokens - 1
        return num_tokens / self.decode_time_s if self.decode_time_s > 0 else None

    @property
    def predicted_tokens_per_second(self) -> float | None:
        """What the controller expected of the same passes; None where it predicts nothing."""
        return self.predicted_tokens / self.predicted_time_s if self.predicted_time_s > 0 else None

    def to_dict(self) -> dict[str, Any]:
        """Counts and rates, ready for JSON."""
        rates = ["acceptance_rate", "acceptance_length", "draft_length", "tokens_per_second"]
        rates += ["decode_tokens_per_second", "predicted_tokens_per_second"]
        return asdict(self) | {name: getattr(self, name) for name in rates}


@dataclass(frozen=True, slots=True)
class NumericsFingerprint:
    """Everything that bits depend on. Two outputs are comparable bit for bit only under equal fingerprints."""

    exactness: str
    width: int
    chunk: int
    kv_block: int
    dtype: str
    device: str  # device kind and instruction set, e.g. "cpu:avx512_bf16" or "cuda:NVIDIA H200"
    num_threads: int
    torch_version: str
    weights_hash: str
    verification: str = "match"
    kv_zones: tuple[int, int] | None = None
    prefill_step: int = 8

    @property
    def digest(self) -> str:
        """Sixteen hex digits that stand for the whole.

        >>> NumericsFingerprint("law", 16, 64, 64, "float32", "cpu:avx2", 2, "2.13.0", "abc").digest
        '8d53591da989dba3'
        """
        text = json.dumps({item.name: getattr(self, item.name) for item in fields(self)}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_dict(self) -> dict[str, Any]:
        """All fields and the digest, ready for JSON."""
        return asdict(self) | {"digest": self.digest}
