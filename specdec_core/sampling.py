"""From logits to a token: sampling parameters, the processors behind them, and the noise of match mode.

The token at generated index t is a function of the processed logits at t and of noise keyed by (seed, t, token id). It
depends on nothing else, so a draft cannot change it. The draw is a Gumbel race (Gumbel 1954; used for drafter-invariant
speculation by Daliri et al. 2024, arXiv 2408.07978): ``argmax(logits / temperature + g)`` follows softmax exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from specdec_core.errors import RequestError

__all__ = ["Constraint", "LogitsPipeline", "SamplingParams", "position_noise"]

_Processor = Callable[[Tensor, Sequence[int]], Tensor]  # (logits [vocab], generated ids) -> logits [vocab]

_MASK64 = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15  # constants of SplitMix64 (Steele, Lea, Flood 2014)
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB
_WHOLE = 2.0**52  # probability 1 in whole parts
_NUM_LIKELY = 1024  # so many tokens top-p sorts before it sorts all


class SamplingParams(BaseModel):
    """How tokens are chosen and when to end. Unknown keys are refused.

    >>> SamplingParams(temperature=0.8, seed=7).greedy
    False
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    temperature: float = Field(0.0, ge=0, allow_inf_nan=False, description="0 is greedy; ties go to the lowest id.")
    top_k: int | None = Field(None, ge=1, description="Keep the k most likely tokens, and ties with the k-th.")
    top_p: float = Field(1.0, gt=0, le=1, description="Keep the smallest set of at least this probability.")
    repetition_penalty: float = Field(1.0, gt=0, allow_inf_nan=False, description="Of tokens in prompt or output.")
    stop: tuple[str, ...] = Field((), description="Strings that end the text; they are not part of it.")
    seed: int = Field(0, ge=0, lt=1 << 63)
    max_tokens: int = Field(256, ge=0)

    @property
    def greedy(self) -> bool:
        """Whether the most likely token is taken without noise."""
        return self.temperature == 0


class Constraint(Protocol):
    """A grammar that the text must follow. Stateless to its callers: every question names the whole prefix."""

    def allowed(self, generated_ids: Sequence[int]) -> Tensor:
        """Which tokens may follow, [vocab], bool; at least one is true."""
        ...

    def forced(self, generated_ids: Sequence[int], max_tokens: int) -> tuple[int, ...]:
        """The tokens that must follow because nothing else may, at most ``max_tokens``; often none."""
        ...


class LogitsPipeline:
    """The processors of one request, in order: constraint, repetition penalty, temperature, top-k, top-p.

    Stateless: every call gets the tokens generated so far, so each row sees the draft tokens accepted before it.
    """

    def __init__(
        self, params: SamplingParams, prompt_ids: Sequence[int] = (), constraint: Constraint | None = None
    ) -> None:
        self.params = params
        self.constrained = constraint is not None
        self._processors = _build_processors(params, prompt_ids)
        if constraint is not None:
            self._processors.insert(0, _only_allowed(constraint))

    @property
    def takes_raw_logits(self) -> bool:
        """Whether the greatest logit is taken as it stands: greedy, without processors."""
        return self.params.greedy and not self._processors

    def process(self, logits: Tensor, generated_ids: Sequence[int]) -> Tensor:
        """Processed logits, [vocab]: softmax of them is the law of the next token. Filtered tokens are -inf."""
        if logits.dtype not in (torch.float32, torch.float64):
            logits = logits.float()
        for processor in self._processors:
            logits = processor(logits, generated_ids)
        return logits

    def choose(self, logits: Tensor, generated_ids: Sequence[int]) -> int:
        """The token that follows ``generated_ids``, given the target's logits there, [vocab].

        Raises RequestError when the logits are not finite: the model computed nonsense.
        """
        processed = self.process(logits, generated_ids)
        if not self.params.greedy:
            processed = self._race(processed, index=len(generated_ids))
        value, token_id = processed.max(dim=-1)
        if not torch.isfinite(value):
            raise RequestError(
                f"the model's logits at generated index {len(generated_ids)} are not finite ({value.item()!r}); "
                "try another dtype (float32) or check the weights"
            )
        return int(token_id)

    def _race(self, processed: Tensor, index: int) -> Tensor:
        """Noise added for surviving tokens only, [vocab] in float64."""
        survivors = torch.isfinite(processed).nonzero().squeeze(-1)
        noise = position_noise(self.params.seed, index, survivors)
        return processed.index_put((survivors,), noise, accumulate=True)


def position_noise(seed: int, index: int, token_ids: Tensor) -> Tensor:
    """Gumbel noise for ``token_ids`` [num] (int64) at generated ``index``, [num] in float64.

    A counter-based integer hash (SplitMix64's finaliser), so it is the same on CPU and CUDA and does not depend on
    which other tokens are asked for.

    >>> a = position_noise(1, 5, torch.tensor([3, 9]))
    >>> bool((a[1:] == position_noise(1, 5, torch.tensor([9]))).all())
    True
    """
    key = _mix_int(_mix_int(seed + _GOLDEN) ^ (index * _MIX_2 + _GOLDEN))
    return _gumbel(_mix(token_ids * _signed(_GOLDEN) + _signed(key)))


def _gumbel(bits: Tensor) -> Tensor:
    """Gumbel noise from 64 random bits each. 52 of them: with 53 the half would round up, and 1.0 give infinity."""
    uniform = (_shift_right(bits, 12).double() + 0.5) * 2.0**-52  # in (0, 1), never an end
    return -torch.log(-torch.log(uniform))


def _build_processors(params: SamplingParams, prompt_ids: Sequence[int]) -> list[_Processor]:
    processors: list[_Processor] = []
    if params.repetition_penalty != 1:
        processors.append(_repetition_penalty(params.repetition_penalty, frozenset(prompt_ids)))
    if params.greedy:
        return processors
    processors.append(_temperature(params.temperature))
    if params.top_k is not None:
        processors.append(_top_k(params.top_k))
    if params.top_p < 1:
        processors.append(_top_p(params.top_p))
    return processors


def _only_allowed(constraint: Constraint) -> _Processor:
    def apply(logits: Tensor, generated_ids: Sequence[int]) -> Tensor:
        return logits.masked_fill(~constraint.allowed(generated_ids).to(logits.device), -torch.inf)

    return apply


def _repetition_penalty(penalty: float, prompt_ids: frozenset[int]) -> _Processor:
    """Keskar et al. 2019 (CTRL), section 4.1, read as in transformers: positive logits divided, others multiplied."""

    def apply(logits: Tensor, generated_ids: Sequence[int]) -> Tensor:
        seen = torch.tensor(sorted(prompt_ids.union(generated_ids)), dtype=torch.long, device=logits.device)
        values = logits[seen]
        return logits.index_put((seen,), torch.where(values > 0, values / penalty, values * penalty))

    return apply


def _temperature(temperature: float) -> _Processor:
    """In float64 and below zero: no temperature, however small, overflows or divides by zero."""
    return lambda logits, _: (logits.double() - logits.max()) / temperature


def _top_k(k: int) -> _Processor:
    def apply(logits: Tensor, _: Sequence[int]) -> Tensor:
        smallest_kept = logits.topk(min(k, logits.shape[-1])).values[-1]
        return logits.masked_fill(logits < smallest_kept, -torch.inf)

    return apply


def _top_p(p: float) -> _Processor:
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


def _mix_int(value: int) -> int:
    value &= _MASK64
    value = ((value ^ (value >> 30)) * _MIX_1) & _MASK64
    value = ((value ^ (value >> 27)) * _MIX_2) & _MASK64
    return value ^ (value >> 31)


def _mix(values: Tensor) -> Tensor:
    """``_mix_int`` on int64 tensors, whose products wrap around modulo 2**64."""
    values = (values ^ _shift_right(values, 30)) * _signed(_MIX_1)
    values = (values ^ _shift_right(values, 27)) * _signed(_MIX_2)
    return values ^ _shift_right(values, 31)


def _shift_right(values: Tensor, bits: int) -> Tensor:
    """Logical shift: torch's own keeps the sign."""
    return (values >> bits) & ((1 << (64 - bits)) - 1)


def _signed(value: int) -> int:
    """The int64 with the same 64 bits."""
    value &= _MASK64
    return value - (1 << 64) if value >> 63 else value
