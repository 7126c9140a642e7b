"""The decode loop. A round reads: propose -> forward -> verify -> commit. Plain decoding is this loop without drafts.

After every round the target's cache holds prompt + generated - 1 tokens: the last one is read by the next pass.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Literal

from torch import Tensor

from specdec_core.controller import Controller
from specdec_core.drafters.base import DraftContext
from specdec_core.errors import DrafterError, in_field
from specdec_core.logprobs import TokenLogprobs, token_logprobs
from specdec_core.metrics import DecodeStats
from specdec_core.models.base import TargetModel, check_prompt, round_up
from specdec_core.sampling import LogitsPipeline
from specdec_core.stopping import StopChecker
from specdec_core.types import Draft, Round
from specdec_core.verification import Verdict, Verify, verify_match

__all__ = ["Generation", "decode"]


@dataclass(slots=True)
class Generation:
    """Everything one generation works with, and what it has emitted so far (``stopper.token_ids``)."""

    target: TargetModel
    controller: Controller
    context: DraftContext
    stopper: StopChecker
    max_draft_tokens: int
    max_new_tokens: int
    verify: Verify = verify_match
    before_chunk: Callable[[], None] = lambda: None  # of the prompt; what it raises ends the generation
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
    """Run a generation; yields after prefill (None) and after every round. The drafters are ended in any case.

    Raises ContextOverflowError, VocabularyMismatchError, RequestError (nothing usable to read, logits not finite) and
    DrafterError; the target can be used again after each.
    """
    with _leaving_order(generation):
        if generation.stopper.finished:  # max_tokens = 0
            return
        _prefill(generation)
        yield None
        while not generation.stopper.finished:
            yield _round(generation)


def _round(generation: Generation) -> Round:
    controller, clock = generation.controller, generation.controller.clock
    started = clock()
    draft = _propose(generation)
    proposed = clock()
    logits = generation.target.decode((generation.generated_ids[-1], *draft.token_ids))
    verdict = generation.verify(logits, draft, generation.pipeline, generation.generated_ids)
    pass_time_s = clock() - proposed
    num_emitted = _commit(generation, verdict, logits)
    generation.target.rollback(len(generation.prompt_ids) + len(generation.generated_ids) - 1)
    round_ = _account(generation.stats, draft, verdict, num_emitted)
    controller.learn(round_, pass_time_s)
    generation.stats.decode_time_s += clock() - started
    return round_


def _prefill(generation: Generation) -> None:
    """Read the prompt and emit the token it yields."""
    started = generation.controller.clock()
    prompt_ids, target, stats = generation.prompt_ids, generation.target, generation.stats
    with in_field("prompt"):
        check_prompt(target, prompt_ids)  # before a drafter reads it
    generation.controller.begin(generation.context, stats)
    logits: Tensor = target.prefill(prompt_ids, generation.before_chunk)
    verdict = generation.verify(logits.unsqueeze(0), Draft(), generation.pipeline, ())
    stats.num_prompt_tokens = len(prompt_ids)
    stats.num_cached_prompt_tokens = target.num_cached_prompt_tokens
    num_computed = len(prompt_ids) - target.num_cached_prompt_tokens
    stats.num_prefill_passes = round_up(num_computed, target.geometry.chunk) // target.geometry.chunk
    stats.prefill_time_s = generation.controller.clock() - started
    _commit(generation, verdict, logits.unsqueeze(0))


def _propose(generation: Generation) -> Draft:
    """A draft no longer than a pass can verify and the request can use."""
    remaining = generation.max_new_tokens - len(generation.generated_ids)
    room = generation.target.geometry.num_tokens_from(generation.target.cache_length)
    limit = min(generation.max_draft_tokens, room - 1, remaining - 1)
    draft = generation.controller.propose(max(limit, 0))
    if not all(0 <= token_id < generation.target.vocab_size for token_id in draft.token_ids):
        name = generation.controller.drafter_name
        raise DrafterError(f"drafter {name!r} proposed ids outside the vocabulary: {draft.token_ids!r}")
    num_read = len(generation.prompt_ids) + len(generation.generated_ids) - 1
    if generation.target.cache_length != num_read:
        raise DrafterError(
            f"the target's cache holds {generation.target.cache_length} tokens where {num_read} were read: a drafter or"
            " somebody else uses it; load a drafting model of its own"
        )
    return draft


@contextmanager
def _leaving_order(generation: Generation) -> Iterator[None]:
    """End the drafters in any case; what one raises then hides no earlier error.

    After an error the target forgets the sequence: its keys and values may be what was wrong.
    """
    try:
        yield
    except BaseException as error:
        if isinstance(error, Exception):
            generation.target.rollback(0)
        with suppress(Exception):
            generation.controller.end()
        raise
    generation.controller.end()


def _commit(generation: Generation, verdict: Verdict, logits: Tensor) -> int:
    """Emit tokens up to the one that ends the text, and tell the drafters; how many were emitted."""
    num_emitted = 0
    for token_id in verdict.token_ids:
        num_emitted += 1
        if generation.stopper.push(token_id):
            break
    generation.controller.observe(verdict.token_ids[:num_emitted])
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
        replace(draft, token_ids=draft.token_ids[:num_drafted], probs=None),
        verdict.token_ids[:num_emitted],
        num_accepted,
        last,
    )
