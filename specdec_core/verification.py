"""Verification: which of the drafted tokens stand, and what follows them.

Glossary (as vLLM's sampler names them):

- **draft** tokens are proposed by a drafter;
- **accepted** ones stand;
- a **recovered** token is the target's own at the first draft token that does not;
- a **bonus** token is the free one after a fully accepted draft.

A round always emits at least one token: recovered or bonus.

In *match mode* the target's choice at generated index t is a function of the target's logits at t and of noise keyed by
(seed, t, token id). A draft token is accepted if and only if it equals that choice, so the emitted tokens are those of
plain decoding for any drafter, however wrong: by induction, row i is computed from the same prefix as in plain decoding
as long as all draft tokens before it were equal to the choices there.

In *rejection mode* (Leviathan et al. 2022, arXiv 2211.17192, section 2.3; Chen et al. 2023, arXiv 2302.01318) a token x
drawn from the draft's law q is accepted with probability min(1, p(x) / q(x)), p being the target's; in place of a
rejected one stands a token of the residual max(p - q, 0), normalised. Then x follows p, since
min(p, q) + (1 - sum min(p, q)) * (p - min(p, q)) / sum (p - min(p, q)) = p. The law is that of plain decoding; the text
for a seed is not. Streams of noise keep acceptance, residual, the target's own draws and the drafts of each round
independent: what is verified, and how much, may depend on all that is past, drafts that were refused included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from specdec_core.errors import DrafterError, RequestError
from specdec_core.noise import Stream, position_uniform
from specdec_core.sampling import LogitsPipeline
from specdec_core.types import Draft

__all__ = ["VERIFIERS", "Verdict", "Verification", "Verify", "residual_law", "verify_match", "verify_rejection"]

Verification = Literal["match", "rejection"]
"""``match``: the text of plain decoding for the seed. ``rejection``: its law only; drafters may draw with own noise."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The tokens a round emits: the accepted draft tokens, then one recovered or bonus token.

    ``margins`` goes with ``token_ids`` where the pipeline asks for it and tokens are chosen by rank; else it is empty.
    ``last`` is None where nothing could be chosen behind accepted tokens: the text may have ended among them, as plain
    decoding would find, and if not, the next round meets the error in its first row and raises it.
    """

    token_ids: tuple[int, ...]
    num_accepted: int
    last: Literal["recovered", "bonus"] | None
    margins: tuple[float, ...] = ()


Verify = Callable[[Tensor, Draft, LogitsPipeline, Sequence[int]], Verdict]
"""(logits [num_draft + 1, vocab], draft, pipeline, generated ids) -> verdict."""


def verify_match(logits: Tensor, draft: Draft, pipeline: LogitsPipeline, generated_ids: Sequence[int]) -> Verdict:
    """Walk the rows of ``logits`` [num_draft + 1, vocab] from left to right and stop at the first mismatch.

    Row i holds the target's logits after ``generated_ids`` and the first i draft tokens.
    """
    prefix, margins = list(generated_ids), []
    for row, draft_token in enumerate((*draft.token_ids, None)):
        try:
            if pipeline.with_margins:
                token, margin = pipeline.choose_with_margin(logits[row], prefix)
                margins.append(margin)
            else:
                token = pipeline.choose(logits[row], prefix)
        except RequestError:
            if row == 0:
                raise
            return Verdict(tuple(prefix[len(generated_ids) :]), row, None, tuple(margins))
        prefix.append(token)
        if token != draft_token:
            break
    last: Literal["recovered", "bonus"] = "bonus" if draft_token is None else "recovered"
    return Verdict(tuple(prefix[len(generated_ids) :]), row, last, tuple(margins))


def verify_rejection(logits: Tensor, draft: Draft, pipeline: LogitsPipeline, generated_ids: Sequence[int]) -> Verdict:
    """Accept draft tokens with probability min(1, p / q), rows from left to right, up to the first rejection.

    ``draft.probs`` [num_draft, vocab] is q, as processed as it was drawn from; None where tokens were chosen, not
    drawn: q is then 1 for the token. Rows of ``logits`` as in ``verify_match``. A token that no draft precedes is the
    one of plain decoding. At temperature 0 the verdict is that of ``verify_match``.

    Raises DrafterError when ``draft.probs`` is no law that the token could have been drawn from.
    """
    prefix = list(generated_ids)
    try:
        for num_accepted, draft_token in enumerate(draft.token_ids):
            index, law = len(prefix), pipeline.law(logits[num_accepted], prefix)
            draft_law = _draft_law(draft, num_accepted, law)
            uniform = position_uniform(pipeline.params.seed, index, Stream.ACCEPT)
            if uniform * float(draft_law[draft_token]) >= float(law[draft_token]):
                recovered = pipeline.draw(residual_law(law, draft_law), index, Stream.RESIDUAL)
                return Verdict((*draft.token_ids[:num_accepted], recovered), num_accepted, "recovered")
            prefix.append(draft_token)
        bonus = pipeline.choose(logits[len(draft.token_ids)], prefix)
        return Verdict((*draft.token_ids, bonus), len(draft.token_ids), "bonus")
    except RequestError:
        if len(prefix) == len(generated_ids):
            raise
        return Verdict(tuple(prefix[len(generated_ids) :]), len(prefix) - len(generated_ids), None)


VERIFIERS: dict[Verification, Verify] = {"match": verify_match, "rejection": verify_rejection}
"""The modes by name."""


def residual_law(law: Tensor, draft_law: Tensor) -> Tensor:
    """What is left of ``law`` [vocab] beyond ``draft_law`` [vocab], normalised: the law after a rejection.

    Where both agree nothing is left, and nothing is rejected but by rounding: ``law`` itself then.

    >>> residual_law(torch.tensor([0.5, 0.3, 0.2]), torch.tensor([0.25, 0.5, 0.25])).tolist()
    [1.0, 0.0, 0.0]
    """
    left = (law - draft_law).clamp(min=0)
    total = left.sum()
    return left / total if total > 0 else law


def _draft_law(draft: Draft, row: int, law: Tensor) -> Tensor:
    """q at one position, [vocab] in float64, beside ``law``."""
    token_id = draft.token_ids[row]
    if draft.probs is None:
        return torch.zeros_like(law).index_fill(0, torch.tensor(token_id, device=law.device), 1.0)
    if draft.probs.ndim != 2 or len(draft.probs) <= row or draft.probs.shape[1] != len(law):
        raise DrafterError(
            f"drafter {draft.source!r} gave probs of shape {list(draft.probs.shape)} for {len(draft.token_ids)} draft "
            f"tokens and {len(law)} ids"
        )
    draft_law = draft.probs[row].to(law)
    if not (draft_law.min() >= 0 and abs(float(draft_law.sum()) - 1) < 1e-3 and draft_law[token_id] > 0):
        raise DrafterError(f"drafter {draft.source!r} gave probs for token {token_id} that it was not drawn from")
    return draft_law
