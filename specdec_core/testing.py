"""Drafters made to be right, wrong or strange, and a check that none of them changes the text. Public: test yours."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from specdec_core.controller import Controller
from specdec_core.decoder import Generation, decode
from specdec_core.drafters.base import DraftContext, Drafter
from specdec_core.drafters.null import NullDrafter
from specdec_core.models.base import TargetModel
from specdec_core.noise import draft_stream
from specdec_core.sampling import LogitsPipeline, SamplingParams
from specdec_core.sequences import first_difference
from specdec_core.stopping import StopChecker
from specdec_core.types import Draft
from specdec_core.verification import VERIFIERS, Verification

__all__ = [
    "AlternatingDrafter",
    "AntiOracleDrafter",
    "DrawingDrafter",
    "OracleDrafter",
    "OverlongDrafter",
    "RandomDrafter",
    "SilentDrafter",
    "assert_lossless",
    "generate_ids",
]


class OracleDrafter:
    """Knows the answer: everything it drafts is accepted."""

    name = "oracle"

    def __init__(self, answer_ids: Sequence[int]) -> None:
        self._answer = tuple(answer_ids)
        self._num_seen = 0

    def begin(self, context: DraftContext) -> None:
        """Start at the beginning of the answer."""
        self._num_seen = 0

    def propose(self, max_tokens: int) -> Draft:
        """What comes next in the answer."""
        return Draft(self._answer[self._num_seen : self._num_seen + max_tokens], self.name)

    def observe(self, token_ids: Sequence[int]) -> None:
        """Move on."""
        self._num_seen += len(token_ids)

    def end(self) -> None:
        """Nothing to release."""


class AntiOracleDrafter(OracleDrafter):
    """Knows the answer and always drafts something else: nothing is accepted."""

    name = "anti-oracle"

    def __init__(self, answer_ids: Sequence[int], vocab_size: int) -> None:
        super().__init__(answer_ids)
        self._vocab_size = vocab_size

    def propose(self, max_tokens: int) -> Draft:
        """The answer, each token shifted by one."""
        right = super().propose(max_tokens).token_ids
        return Draft(tuple((token + 1) % self._vocab_size for token in right), self.name)


class AlternatingDrafter(AntiOracleDrafter):
    """Right and wrong token by token, silent every third round: mismatches at every place of a draft."""

    name = "alternating"

    def begin(self, context: DraftContext) -> None:
        """Start over."""
        super().begin(context)
        self._num_rounds = 0

    def propose(self, max_tokens: int) -> Draft:
        """Right up to a place that moves with the rounds, wrong from there on."""
        self._num_rounds += 1
        if self._num_rounds % 3 == 0:
            return Draft()
        right = OracleDrafter.propose(self, max_tokens).token_ids
        wrong = super().propose(max_tokens).token_ids
        place = self._num_rounds % (max_tokens + 1)
        return Draft(right[:place] + wrong[place:], self.name)


class SilentDrafter(NullDrafter):
    """Never drafts, yet is no choice of plain decoding: what a grammar forces is still drafted beside it."""

    name = "silent"


class RandomDrafter(NullDrafter):
    """Draws from the whole vocabulary, end-of-sequence tokens included."""

    name = "random"

    def __init__(self, vocab_size: int, seed: int = 0) -> None:
        self._vocab_size = vocab_size
        self._random = random.Random(seed)

    def propose(self, max_tokens: int) -> Draft:
        """Up to ``max_tokens`` tokens, sometimes none."""
        length = self._random.randint(0, max_tokens)
        return Draft(tuple(self._random.randrange(self._vocab_size) for _ in range(length)), self.name)


class OverlongDrafter(OracleDrafter):
    """Ignores the limit it is given."""

    name = "overlong"

    def propose(self, max_tokens: int) -> Draft:
        """The whole rest of the answer and more."""
        rest = self._answer[self._num_seen :]
        return Draft(rest + self._answer, self.name)


class DrawingDrafter(NullDrafter):
    """Draws from a law of its own: an order-1 table, row i of ``logits`` [vocab, vocab] follows token i.

    The request's processors apply to it. In match mode it draws with the target's noise, so it is right more often than
    chance; in rejection mode with its own, and tells the law it drew from.
    """

    name = "drawing"

    def __init__(self, logits: Tensor) -> None:
        self._logits = logits

    def begin(self, context: DraftContext) -> None:
        """Keep the context."""
        self._context = context
        self._generated: list[int] = []

    def observe(self, token_ids: Sequence[int]) -> None:
        """Keep the tokens."""
        self._generated.extend(token_ids)

    def propose(self, max_tokens: int) -> Draft:
        """``max_tokens`` tokens, each drawn after the ones before it."""
        prefix, laws = list(self._generated), []
        for _ in range(max_tokens):
            token_id, law = self._next(prefix)
            prefix.append(token_id)
            laws.append(law)
        drawn = tuple(prefix[len(self._generated) :])
        if self._context.verification == "match":
            return Draft(drawn, self.name)
        return Draft(drawn, self.name, torch.stack(laws))

    def _next(self, prefix: Sequence[int]) -> tuple[int, Tensor]:
        """(token, the law it was drawn from) after ``prefix``."""
        pipeline = self._context.pipeline
        row = self._logits[(*self._context.prompt_ids, *prefix)[-1]]
        law = pipeline.law(row, prefix)
        if self._context.verification == "match":
            return pipeline.choose(row, prefix), law
        return pipeline.draw(law, len(prefix), draft_stream(len(self._generated))), law


def generate_ids(
    target: TargetModel,
    prompt_ids: Sequence[int],
    sampling: SamplingParams | LogitsPipeline,
    drafter: Drafter | Controller | None = None,
    *,
    num_speculative_tokens: int | None = None,
    reference_ids: Sequence[Sequence[int]] = (),
    eos_token_ids: Sequence[int] = (),
    verification: Verification = "match",
) -> Generation:
    """Run a target without a tokenizer; the finished generation has ``generated_ids`` and ``stats``.

    Drafts are as long as allowed, from the first drafter that has one, unless a controller decides otherwise. A ready
    pipeline may stand for ``sampling``: with bad words, which a tokenizer would have read, or a constraint.
    """
    in_law, pipeline = target.geometry.exactness == "law", sampling
    if not isinstance(pipeline, LogitsPipeline):
        pipeline = LogitsPipeline(pipeline, prompt_ids, with_margins=in_law)
    most = target.geometry.max_draft_tokens
    max_new_tokens = min(pipeline.params.max_tokens, max(target.context_length - len(prompt_ids), 1))
    generation = Generation(
        target=target,
        controller=drafter if isinstance(drafter, Controller) else Controller(drafter or NullDrafter()),
        context=DraftContext(
            prompt_ids=tuple(prompt_ids),
            reference_ids=tuple(map(tuple, reference_ids)),
            pipeline=pipeline,
            eos_token_ids=tuple(eos_token_ids),
            verification=verification,
        ),
        stopper=StopChecker(decode=lambda _: "", max_tokens=max_new_tokens, eos_token_ids=eos_token_ids),
        max_draft_tokens=most if num_speculative_tokens is None else min(num_speculative_tokens, most),
        max_new_tokens=max_new_tokens,
        verify=VERIFIERS[verification],
    )
    for _ in decode(generation):
        pass
    return generation


def assert_lossless(
    target: TargetModel,
    prompts: Sequence[Sequence[int]],
    make_drafters: Sequence[Callable[[Sequence[int]], Drafter]],
    sampling: SamplingParams,
    *,
    draft_lengths: Sequence[int] = (1, 3, 7, 15),
    eos_token_ids: Sequence[int] = (),
) -> int:
    """Generate plainly and with every drafter and draft length; returns the number of comparisons.

    Each entry of ``make_drafters`` gets the plain answer's ids and returns a drafter. Raises AssertionError at the
    first difference, unequal lengths first, with the place of the first divergence.
    """
    num_compared = 0
    for prompt_ids in prompts:
        plain = generate_ids(target, prompt_ids, sampling, eos_token_ids=eos_token_ids).generated_ids
        for make_drafter in make_drafters:
            for draft_length in draft_lengths:
                drafter = make_drafter(plain)
                speculative = generate_ids(
                    target,
                    prompt_ids,
                    sampling,
                    drafter,
                    num_speculative_tokens=draft_length,
                    reference_ids=[plain],
                    eos_token_ids=eos_token_ids,
                ).generated_ids
                _assert_equal(plain, speculative, f"drafter {drafter.name}, {draft_length} draft tokens, {sampling!r}")
                num_compared += 1
    return num_compared


def _assert_equal(plain: Sequence[int], speculative: Sequence[int], case: str) -> None:
    assert len(plain) == len(speculative), f"{case}: {len(plain)} tokens plainly, {len(speculative)} with drafts"
    index = first_difference(plain, speculative)
    if index is not None:
        raise AssertionError(f"{case}: token {index} is {plain[index]} plainly and {speculative[index]} with drafts")
