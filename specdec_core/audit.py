"""Audit: is the speculative text of a request the plain one? If not, where do they part, and how near was the choice?

The plain path is the same engine and target with a drafter that never drafts. In bitwise exactness both texts must be
equal. In law exactness passes of different widths may round differently, so near ties may flip: the margin tells a tie
(about the rounding error of the dtype) from a bug (anything larger).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from specdec_core.drafters.null import NullDrafter
from specdec_core.engine import Engine
from specdec_core.errors import RequestError
from specdec_core.request_reading import ReadRequest
from specdec_core.sampling import LogitsPipeline
from specdec_core.types import GenerationOutput, GenerationRequest

__all__ = ["AuditReport", "Divergence", "audit", "first_difference"]


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first generated index at which two texts differ; None for a token of the shorter one, which has ended.

    ``margin`` is how much the plain path preferred its own token there: the difference of the two scores (processed
    logits, with noise unless greedy) in the unit of the model's logits. None where one text has ended, infinite where
    the plain path excludes the other token.
    """

    index: int
    plain_token_id: int | None
    speculative_token_id: int | None
    plain_text: str | None
    speculative_text: str | None
    margin: float | None

    def to_dict(self) -> dict[str, Any]:
        """All fields, ready for JSON (an infinite margin as text)."""
        margin = "infinite" if self.margin == float("inf") else self.margin
        return {name: getattr(self, name) for name in self.__slots__} | {"margin": margin}


@dataclass(frozen=True, slots=True)
class AuditReport:
    """Both outputs of one request, and the first divergence; None where they are equal."""

    plain: GenerationOutput
    speculative: GenerationOutput
    divergence: Divergence | None

    @property
    def equal(self) -> bool:
        return self.divergence is None

    def to_dict(self) -> dict[str, Any]:
        """Verdict, lengths, divergence, and what both runs cost, ready for JSON."""
        return {
            "equal": self.equal,
            "num_plain_tokens": len(self.plain.token_ids),
            "num_speculative_tokens": len(self.speculative.token_ids),
            "divergence": None if self.divergence is None else self.divergence.to_dict(),
            "plain_decode_passes": self.plain.stats.num_decode_passes,
            "speculative_decode_passes": self.speculative.stats.num_decode_passes,
            "acceptance_length": self.speculative.stats.acceptance_length,
            "smallest_margin": self.plain.stats.smallest_margin,
            "fingerprint": self.speculative.fingerprint.to_dict(),
        }


def audit(engine: Engine, request: GenerationRequest) -> AuditReport:
    """Run ``request`` on the plain path and on the engine's own, and compare.

    Raises RequestError for an engine in rejection mode, whose text is not that of plain decoding by design, and
    whatever ``Engine.generate`` raises.
    """
    if engine.verification == "rejection":
        raise RequestError(
            "rejection verification keeps the law, not the text, so there is nothing to compare: audit with match"
        )
    plain = Engine(engine.model, drafter=NullDrafter(), num_speculative_tokens=0).generate(request)
    speculative = engine.generate(request)
    index = first_difference(plain.token_ids, speculative.token_ids)
    divergence = None if index is None else _divergence(engine, request, plain, speculative, index)
    return AuditReport(plain, speculative, divergence)


def first_difference(plain: Sequence[int], speculative: Sequence[int]) -> int | None:
    """The first index at which the sequences differ, or None. A shorter one that ends early is different.

    >>> first_difference([1, 2, 3], [1, 5, 3]), first_difference([1, 2], [1, 2, 3]), first_difference([1], [1])
    (1, 2, None)
    """
    if len(plain) == len(speculative) and tuple(plain) == tuple(speculative):
        return None
    pairs = enumerate(zip(plain, speculative, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(plain), len(speculative)))


def _divergence(
    engine: Engine, request: GenerationRequest, plain: GenerationOutput, speculative: GenerationOutput, index: int
) -> Divergence:
    tokens = [ids[index] if index < len(ids) else None for ids in (plain.token_ids, speculative.token_ids)]
    decode = engine.model.tokenizer.decode
    texts = [None if token is None else decode((token,), skip_special_tokens=False) for token in tokens]
    margin: float | None = None
    if tokens[0] is not None and tokens[1] is not None:
        logits = _plain_logits(engine, plain, index)
        margin = _margin(
            ReadRequest(request, engine.model).pipeline, logits, plain.token_ids[:index], tokens[0], tokens[1]
        )
    return Divergence(index, tokens[0], tokens[1], texts[0], texts[1], margin)


def _plain_logits(engine: Engine, plain: GenerationOutput, index: int) -> Tensor:
    """The target's logits at ``index``, [vocab], by the passes that plain decoding made."""
    target = engine.model.target
    with engine.model.in_use.held():
        logits = target.prefill(plain.prompt_token_ids)
        for token_id in plain.token_ids[:index]:
            logits = target.decode((token_id,))[0]
    return logits


def _margin(pipeline: LogitsPipeline, logits: Tensor, prefix: Sequence[int], mine: int, other: int) -> float:
    scores = pipeline.scores(logits, prefix)
    return (float(scores[mine]) - float(scores[other])) * (pipeline.params.temperature or 1.0)
