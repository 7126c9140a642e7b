"""The decode loop. A round reads: propose -> forward -> verify -> commit. Plain decoding is this loop without drafts.

After every round the target's cache holds prompt + generated - 1 tokens: the last one is read by the next pass.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from specdec_core.drafters.base import DraftContext, Drafter
from specdec_core.errors import ContextOverflowError, DrafterError, RequestError
from specdec_core.logprobs import TokenLogprobs, token_logprobs
from specdec_core.metrics import DecodeStats
from specdec_core.models.base import TargetModel, round_up
from specdec_core.sampling import LogitsPipeline
from specdec_core.stopping import StopChecker
from specdec_core.types import Draft, Round
from specdec_core.verification import Verdict, Verify, verify_match

__all__ = ["Generation", "decode"]


@dataclass(slots=True)
class Generation:
    """Everything one generation works with, and what it has emitted so far (``stopper.token_ids``)."""

    target: TargetModel
    drafter: Drafter
    context: DraftContext
    stopper: StopChecker
    max_draft_tokens: int
    max_new_tokens: int
    verify: Verify = verify_match
    stats: DecodeStats = field(default_factory=DecodeStats)
    logprobs: list[TokenLogprobs] = field(default_factory=list)  # of every emitted token, where the request wants them

    @property
    def prompt_ids(self) -> tuple[int, ...]:
        return self.context.prompt_ids

    @property
    def pipeline(self) -> LogitsPipeline:
        return self.context.pipeline

    @property
    def generated_ids(self) -> list[int]:
        return self.stopper.token_ids


def decode(generation: Generation) -> Generator[Round | None, None, None]:
    """Run a generation; yields after prefill (None) and after every round. The drafter is ended in any case.

    Raises ContextOverflowError, VocabularyMismatchError, RequestError (nothing usable to read, logits not finite) and
    DrafterError; the target can be used again after each.
    """
    try:
        if generation.stopper.finished:  # max_tokens = 0
            return
        _prefill(generation)
        yield None
        while not generation.stopper.finished:
            yield _round(generation)
    finally:
        with _blaming(generation.drafter):
            generation.drafter.end()


def _round(generation: Generation) -> Round:
    started = time.perf_counter()
    draft = _propose(generation)
    generation.stats.draft_time_s += time.perf_counter() - started
    logits = generation.target.decode((generation.generated_ids[-1], *draft.token_ids))
    verdict = generation.verify(logits, draft, generation.pipeline, generation.generated_ids)
    num_emitted = _commit(generation, verdict, logits)
    generation.target.rollback(len(generation.prompt_ids) + len(generation.generated_ids) - 1)
    generation.stats.decode_time_s += time.perf_counter() - started
    return _account(generation.stats, draft, verdict, num_emitted)


def _prefill(generation: Generation) -> None:
    """Read the prompt and emit the token it yields."""
    started = time.perf_counter()
    prompt_ids, target, stats = generation.prompt_ids, generation.target, generation.stats
    if not prompt_ids:
        raise RequestError("the prompt is empty: give at least one token")
    if len(prompt_ids) >= target.context_length:
        raise ContextOverflowError(
            f"the prompt has {len(prompt_ids)} tokens and the context holds {target.context_length}, output included; "
            "shorten the prompt or load the model with a larger context_length"
        )
    with _blaming(generation.drafter):
        generation.drafter.begin(generation.context)
    logits: Tensor = target.prefill(prompt_ids)
    verdict = generation.verify(logits.unsqueeze(0), Draft(), generation.pipeline, ())
    stats.num_prompt_tokens = len(prompt_ids)
    stats.num_prefill_passes = round_up(len(prompt_ids), target.geometry.chunk) // target.geometry.chunk
    stats.prefill_time_s = time.perf_counter() - started
    _commit(generation, verdict, logits.unsqueeze(0))


def _propose(generation: Generation) -> Draft:
    """A draft no longer than a pass can verify and the request can use."""
    remaining = generation.max_new_tokens - len(generation.generated_ids)
    limit = min(generation.max_draft_tokens, generation.target.geometry.max_draft_tokens, remaining - 1)
    if limit < 1:
        return Draft()
    with _blaming(generation.drafter):
        draft = generation.drafter.propose(limit)
        token_ids = tuple(map(operator.index, draft.token_ids[:limit]))
    if not all(0 <= token_id < generation.target.vocab_size for token_id in token_ids):
        raise DrafterError(f"drafter {generation.drafter.name!r} proposed ids outside the vocabulary: {token_ids!r}")
    probs = None if draft.probs is None else draft.probs[: len(token_ids)]
    return Draft(token_ids, draft.source, probs)


@contextmanager
def _blaming(drafter: Drafter) -> Iterator[None]:
    """Whatever a drafter raises is a DrafterError that names it."""
    try:
        yield
    except Exception as error:
        raise DrafterError(f"drafter {drafter.name!r} raised {type(error).__name__}: {error}") from error


def _commit(generation: Generation, verdict: Verdict, logits: Tensor) -> int:
    """Emit tokens up to the one that ends the text, and tell the drafter; how many were emitted."""
    num_emitted = 0
    for token_id in verdict.token_ids:
        num_emitted += 1
        if generation.stopper.push(token_id):
            break
    with _blaming(generation.drafter):
        generation.drafter.observe(verdict.token_ids[:num_emitted])
    generation.stats.num_generated_tokens += num_emitted
    generation.stats.see_margins(verdict.margins[:num_emitted])
    if (num_top := generation.pipeline.params.logprobs) is not None:
        emitted = zip(logits, verdict.token_ids[:num_emitted], strict=False)  # the rows after a rejection are no use
        generation.logprobs += [token_logprobs(row, token_id, num_top) for row, token_id in emitted]
    return num_emitted


def _account(stats: DecodeStats, draft: Draft, verdict: Verdict, num_emitted: int) -> Round:
    """Count what was used: draft tokens after the end of the text are neither drafted nor accepted."""
    num_accepted = min(verdict.num_accepted, num_emitted)
    ended_inside = num_emitted <= verdict.num_accepted
    num_drafted = num_emitted if ended_inside else len(draft.token_ids)
    last: Literal["recovered", "bonus"] | None = None if ended_inside else verdict.last
    stats.num_decode_passes += 1
    if num_drafted:
        stats.num_drafts += 1
        stats.num_draft_tokens += num_drafted
        stats.num_accepted_tokens += num_accepted
        by_position = stats.num_accepted_by_position
        by_position.extend([0] * (num_accepted - len(by_position)))
        for position in range(num_accepted):
            by_position[position] += 1
    return Round(
        Draft(draft.token_ids[:num_drafted], draft.source), verdict.token_ids[:num_emitted], num_accepted, last
    )
