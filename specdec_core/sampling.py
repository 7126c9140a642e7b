"""From logits to a token: the sampling parameters of a request and the processors they make, in order.

The token at generated index t is a function of the processed logits at t and of noise keyed by (seed, t, token id). It
depends on nothing else, so a draft cannot change it. The draw is a Gumbel race (Gumbel 1954; used for drafter-invariant
speculation by Daliri et al. 2024, arXiv 2408.07978): ``argmax(logits / temperature + g)`` follows softmax exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Protocol

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from specdec_core import processors
from specdec_core.errors import RequestError
from specdec_core.noise import Stream, position_noise
from specdec_core.processors import Processor

__all__ = ["Constraint", "LogitsPipeline", "SamplingParams"]

_TokenId = Annotated[int, Field(ge=0)]
_Bias = Annotated[float, Field(ge=-100, le=100)]
_Word = Annotated[str, Field(min_length=1)]


class SamplingParams(BaseModel):
    """How tokens are chosen and when to end. Unknown keys are refused.

    >>> SamplingParams(temperature=0.8, seed=7).greedy
    False
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    temperature: float = Field(0.0, ge=0, allow_inf_nan=False, description="0 is greedy; ties go to the lowest id.")
    top_k: int | None = Field(None, ge=1, description="Keep the k most likely tokens, and ties with the k-th.")
    top_p: float = Field(1.0, gt=0, le=1, description="Keep the smallest set of at least this probability.")
    min_p: float = Field(0.0, ge=0, le=1, description="Keep tokens at least this share as likely as the likeliest.")
    repetition_penalty: float = Field(1.0, gt=0, allow_inf_nan=False, description="Of tokens in prompt or output.")
    presence_penalty: float = Field(0.0, ge=-2, le=2, description="Taken once from tokens in the output.")
    frequency_penalty: float = Field(0.0, ge=-2, le=2, description="Taken per occurrence in the output.")
    logit_bias: Mapping[_TokenId, _Bias] = Field({}, description="Token id -> what is added to its logit.")
    bad_words: tuple[_Word, ...] = Field((), description="Strings that are not written, with and without a space.")
    logprobs: int | None = Field(None, ge=0, description="Report log probabilities, and of so many likeliest tokens.")
    stop: tuple[str, ...] = Field((), description="Strings that end the text; they are not part of it.")
    seed: int = Field(0, ge=0, lt=1 << 63)
    max_tokens: int = Field(256, ge=0)

    @property
    def greedy(self) -> bool:
        """Whether the most likely token is taken without noise."""
        return self.temperature == 0

    def __hash__(self) -> int:
        return hash(self.model_dump_json())


class Constraint(Protocol):
    """A grammar that the text must follow. Stateless to its callers: every question names the whole prefix."""

    def allowed(self, generated_ids: Sequence[int]) -> Tensor:
        """Which tokens may follow, [vocab], bool; at least one is true."""
        ...

    def forced(self, generated_ids: Sequence[int], max_tokens: int) -> tuple[int, ...]:
        """The tokens that must follow because nothing else may, at most ``max_tokens``; often none."""
        ...


class LogitsPipeline:
    """The processors of one request, in vLLM's order: constraint, bad words, logit bias, penalties (repetition, then
    presence and frequency), temperature, min-p, top-k, top-p.

    Stateless: every call gets the tokens generated so far, so each row sees the draft tokens accepted before it.
    ``bad_word_ids`` are the token sequences of ``params.bad_words``: who has a tokenizer makes them. ``with_margins``
    asks verifiers to measure how near each choice was, which costs a copy of the scores.
    """

    def __init__(
        self,
        params: SamplingParams,
        prompt_ids: Sequence[int] = (),
        constraint: Constraint | None = None,
        *,
        bad_word_ids: Sequence[Sequence[int]] = (),
        with_margins: bool = False,
    ) -> None:
        self.params = params
        self.constrained = constraint is not None
        self.with_margins = with_margins
        self._processors = [
            *([_only_allowed(constraint)] if constraint is not None else []),
            *([processors.bad_words(bad_word_ids)] if bad_word_ids else []),
            *_penalties(params, prompt_ids),
            *_filters(params),
        ]

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

    def scores(self, logits: Tensor, generated_ids: Sequence[int]) -> Tensor:
        """What the tokens are compared by, [vocab]: processed logits, with noise unless greedy."""
        processed = self.process(logits, generated_ids)
        if self.params.greedy:
            return processed
        return self._race(processed, index=len(generated_ids))

    def choose(self, logits: Tensor, generated_ids: Sequence[int]) -> int:
        """The token that follows ``generated_ids``, given the target's logits there, [vocab].

        Raises RequestError when no score is finite: the model computed nonsense, or every token is banned.
        """
        return self._best(self.scores(logits, generated_ids), logits, len(generated_ids))[0]

    def choose_with_margin(self, logits: Tensor, generated_ids: Sequence[int]) -> tuple[int, float]:
        """The chosen token, and by how much its score beat the runner-up's, in the unit of the model's logits.

        Infinite where nothing else was left. Raises RequestError as ``choose`` does.
        """
        scores = self.scores(logits, generated_ids)
        token_id, best = self._best(scores, logits, len(generated_ids))
        others = scores.index_fill(0, torch.tensor(token_id, device=scores.device), -torch.inf)
        return token_id, (best - float(others.max())) * (self.params.temperature or 1.0)

    def law(self, logits: Tensor, generated_ids: Sequence[int]) -> Tensor:
        """Probabilities of the next token, [vocab] in float64; greedy ones are 1 for the chosen token.

        Raises RequestError as ``choose`` does.
        """
        if self.params.greedy:
            chosen = torch.tensor(self.choose(logits, generated_ids), device=logits.device)
            return torch.zeros_like(logits, dtype=torch.float64).index_fill(0, chosen, 1.0)
        processed = self.process(logits, generated_ids)
        if not torch.isfinite(processed.max()):
            raise _nothing_to_choose(logits, len(generated_ids))
        return processed.double().softmax(dim=-1)

    def draw(self, law: Tensor, index: int, stream: int) -> int:
        """A token of ``law`` [vocab] (probabilities, or their multiples) by the noise of ``stream`` at ``index``."""
        return int(self._race(law.log(), index, stream).argmax())

    def _best(self, scores: Tensor, logits: Tensor, index: int) -> tuple[int, float]:
        """(token, its score); ``logits`` and ``index`` are for the error."""
        value, token_id = scores.max(dim=-1)
        if not torch.isfinite(value):
            raise _nothing_to_choose(logits, index)
        return int(token_id), float(value)

    def _race(self, processed: Tensor, index: int, stream: int = Stream.TARGET) -> Tensor:
        """Noise added for surviving tokens only, [vocab] in float64."""
        survivors = torch.isfinite(processed).nonzero().squeeze(-1)
        noise = position_noise(self.params.seed, index, survivors, stream)
        return processed.double().index_put((survivors,), noise, accumulate=True)


def _penalties(params: SamplingParams, prompt_ids: Sequence[int]) -> list[Processor]:
    """What changes the ranking, and so greedy choices too."""
    found: list[Processor] = []
    if params.logit_bias:
        found.append(processors.logit_bias(params.logit_bias))
    if params.repetition_penalty != 1:
        found.append(processors.repetition_penalty(params.repetition_penalty, frozenset(prompt_ids)))
    if params.presence_penalty or params.frequency_penalty:
        found.append(processors.occurrence_penalties(params.presence_penalty, params.frequency_penalty))
    return found


def _filters(params: SamplingParams) -> list[Processor]:
    """What changes only a law: none for greedy choices."""
    found: list[Processor] = []
    if params.greedy:
        return found
    found.append(processors.temperature(params.temperature))
    if params.min_p > 0:
        found.append(processors.min_p(params.min_p))
    if params.top_k is not None:
        found.append(processors.top_k(params.top_k))
    if params.top_p < 1:
        found.append(processors.top_p(params.top_p))
    return found


def _only_allowed(constraint: Constraint) -> Processor:
    def apply(logits: Tensor, generated_ids: Sequence[int]) -> Tensor:
        return logits.masked_fill(~constraint.allowed(generated_ids).to(logits.device), -torch.inf)

    return apply


def _nothing_to_choose(logits: Tensor, index: int) -> RequestError:
    """Whose fault it is that no score is finite."""
    highest = logits.max()
    if torch.isfinite(highest):
        return RequestError(
            f"the sampling parameters leave no token at generated index {index}: every one is banned (bad_words, a "
            "grammar) or overflows (repetition_penalty); loosen them"
        )
    return RequestError(
        f"the model's logits at generated index {index} are not finite ({highest.item()!r}); "
        "try another dtype (float32) or check the weights"
    )
