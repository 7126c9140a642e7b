"""Logits processors: pure functions of the logits of one row and the tokens generated before it.

The tokens generated before a row include the draft tokens accepted in the same pass, so a processor means the same with
and without speculation. Each factory below takes the setting and returns a ``Processor``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from specdec_core.errors import VocabularyMismatchError

__all__ = [
    "Processor",
    "bad_words",
    "logit_bias",
    "min_p",
    "occurrence_penalties",
    "repetition_penalty",
    "temperature",
    "top_k",
    "top_p",
]

Processor = Callable[[Tensor, Sequence[int]], Tensor]
"""(logits [vocab], generated ids) -> logits [vocab]; never in place. Filtered tokens are -inf."""

_WHOLE = 2.0**52  # probability 1 in whole parts
_NUM_LIKELY = 1024  # so many tokens top-p sorts before it sorts all


def bad_words(sequences: Sequence[Sequence[int]]) -> Processor:
    """Forbids each token sequence: its last token may not follow the others. Only generated tokens count.

    Raises VocabularyMismatchError, when applied, for ids outside the vocabulary.
    """
    banned = [tuple(sequence) for sequence in sequences]

    def apply(logits: Tensor, generated_ids: Sequence[int]) -> Tensor:
        last_ids = [
            sequence[-1]
            for sequence in banned
            if (num_before := len(sequence) - 1) <= len(generated_ids)
            and tuple(generated_ids[len(generated_ids) - num_before :]) == sequence[:-1]
        ]
        return logits.index_fill(0, _checked(sorted(set(last_ids)), logits, "bad_words"), -torch.inf)

    return apply


def logit_bias(bias: Mapping[int, float]) -> Processor:
    """Adds ``bias[token id]`` to that token's logit.

    Raises VocabularyMismatchError, when applied, for ids outside the vocabulary.
    """

    def apply(logits: Tensor, _: Sequence[int]) -> Tensor:
        token_ids = _checked(list(bias), logits, "logit_bias")
        amounts = torch.tensor(list(bias.values()), dtype=logits.dtype, device=logits.device)
        return logits.index_put((token_ids,), amounts, accumulate=True)

    return apply


def repetition_penalty(penalty: float, prompt_ids: frozenset[int]) -> Processor:
    """Keskar et al. 2019 (CTRL), section 4.1, read as in transformers: positive logits divided, others multiplied.

    Tokens of the prompt and of the output so far are penalised, once each.
    """

    def apply(logits: Tensor, generated_ids: Sequence[int]) -> Tensor:
        seen = torch.tensor(sorted(prompt_ids.union(generated_ids)), dtype=torch.long, device=logits.device)
        values = logits[seen]
        return logits.index_put((seen,), torch.where(values > 0, values / penalty, values * penalty))

    return apply


def occurrence_penalties(presence: float, frequency: float) -> Processor:
    """``presence`` once and ``frequency`` per occurrence, taken from the logits of generated tokens (as OpenAI)."""

    def apply(logits: Tensor, generated_ids: Sequence[int]) -> Tensor:
        counts = Counter(generated_ids)
        token_ids = torch.tensor(list(counts), dtype=torch.long, device=logits.device)
        penalties = [-(presence + frequency * count) for count in counts.values()]
        amounts = torch.tensor(penalties, dtype=logits.dtype, device=logits.device)
        return logits.index_put((token_ids,), amounts, accumulate=True)

    return apply


def temperature(value: float) -> Processor:
    """Logits over ``value``. In float64 and below zero: none, however small, overflows or divides by zero."""
    return lambda logits, _: (logits.double() - logits.max()) / value


def min_p(share: float) -> Processor:
    """Keeps tokens at least ``share`` times as likely as the likeliest (Nguyen et al. 2024, arXiv 2407.01082)."""
    distance = math.log(share)
    return lambda logits, _: logits.masked_fill(logits < logits.max() + distance, -torch.inf)


def top_k(k: int) -> Processor:
    """Keeps the ``k`` most likely tokens, and ties with the k-th (Fan et al. 2018, section 5.4)."""

    def apply(logits: Tensor, _: Sequence[int]) -> Tensor:
        smallest_kept = logits.topk(min(k, logits.shape[-1])).values[-1]
        return logits.masked_fill(logits < smallest_kept, -torch.inf)

    return apply


def top_p(p: float) -> Processor:
    """Nucleus sampling (Holtzman et al. 2020, section 3.1); equal logits rank by lowest id.

    Probabilities are added as whole parts: on CUDA a sum of floats varies with its order.
    """

    def apply(logits: Tensor, _: Sequence[int]) -> Tensor:
        parts = (logits.softmax(dim=-1) * _WHOLE).long()
        token_ids = _likely_ids(logits, parts, p * _WHOLE)
        token_ids = token_ids[logits[token_ids].argsort(descending=True, stable=True)]
        mass_before = parts[token_ids].cumsum(dim=-1) - parts[token_ids]
        kept = token_ids[mass_before < p * _WHOLE]
        return torch.full_like(logits, -torch.inf).index_put((kept,), logits[kept])

    return apply


def _likely_ids(logits: Tensor, parts: Tensor, mass: float) -> Tensor:
    """The likeliest ids that hold ``mass`` parts, ascending: few do, and sorting all costs a third of a pass."""
    possible = logits > -torch.inf
    if logits.shape[-1] > _NUM_LIKELY:
        lowest = logits.topk(_NUM_LIKELY).values[-1]
        token_ids = ((logits >= lowest) & possible).nonzero().squeeze(-1)
        if parts[token_ids].sum() >= mass:
            return token_ids
    return possible.nonzero().squeeze(-1)


def _checked(token_ids: Sequence[int], logits: Tensor, setting: str) -> Tensor:
    """``token_ids`` as a tensor beside ``logits``, all of them inside the vocabulary."""
    vocab_size = logits.shape[-1]
    outside = [token_id for token_id in token_ids if not 0 <= token_id < vocab_size]
    if outside:
        error = VocabularyMismatchError(f"{setting} names ids outside 0..{vocab_size - 1}: {outside!r}")
        error.field = setting
        raise error
    return torch.tensor(token_ids, dtype=torch.long, device=logits.device)
