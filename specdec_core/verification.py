"""Verification: which of the drafted tokens stand, and what follows them.

Glossary (as vLLM's sampler names them):

- **draft** tokens are proposed by a drafter;
- **accepted** ones equal the target's own choice at their position;
- a **recovered** token is the target's own choice at the first mismatch;
- a **bonus** token is the free one after a fully accepted draft.

A round always emits at least one token: recovered or bonus.

In *match mode* the target's choice at generated index t is a function of the target's logits at t and of noise keyed by
(seed, t, token id). A draft token is accepted if and only if it equals that choice, so the emitted tokens are those of
plain decoding for any drafter, however wrong: by induction, row i is computed from the same prefix as in plain decoding
as long as all draft tokens before it were equal to the choices there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from specdec_core.sampling import LogitsPipeline
from specdec_core.types import Draft

__all__ = ["Verdict", "Verify", "verify_match"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The tokens a round emits: the accepted draft tokens, then one recovered or bonus token."""

    token_ids: tuple[int, ...]
    num_accepted: int
    last: Literal["recovered", "bonus"]


Verify = Callable[[Tensor, Draft, LogitsPipeline, Sequence[int]], Verdict]
"""(logits [num_draft + 1, vocab], draft, pipeline, generated ids) -> verdict."""


def verify_match(logits: Tensor, draft: Draft, pipeline: LogitsPipeline, generated_ids: Sequence[int]) -> Verdict:
    """Walk the rows of ``logits`` [num_draft + 1, vocab] from left to right and stop at the first mismatch.

    Row i holds the target's logits after ``generated_ids`` and the first i draft tokens.
    """
    prefix = list(generated_ids)
    for num_accepted, draft_token in enumerate(draft.token_ids):
        token = pipeline.choose(logits[num_accepted], prefix)
        prefix.append(token)
        if token != draft_token:
            return Verdict(tuple(prefix[len(generated_ids) :]), num_accepted, "recovered")
    prefix.append(pipeline.choose(logits[len(draft.token_ids)], prefix))
    return Verdict(tuple(prefix[len(generated_ids) :]), len(draft.token_ids), "bonus")
