"""Drafters without a model: what was generated once is generated again, and only drafting is done anew.

The decoder's own loop runs with a target that knows the answer, so the counts are those a real generation would have.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from specdec_core.controller import Controller
from specdec_core.decoder import Generation, decode
from specdec_core.drafters.base import DraftContext, Drafter
from specdec_core.drafters.memory import DraftMemory
from specdec_core.metrics import DecodeStats
from specdec_core.models.base import Geometry
from specdec_core.sampling import LogitsPipeline, SamplingParams
from specdec_core.sequences import common_length
from specdec_core.stopping import StopChecker
from specdec_core.types import Draft
from specdec_core.verification import Verdict, Verify

__all__ = ["Recording", "ReplayReport", "replay"]

_ENDLESS = 1 << 40


@dataclass(frozen=True, slots=True)
class Recording:
    """A generation as it was. ``max_new_tokens`` is what it was allowed; by default what it took."""

    prompt_ids: tuple[int, ...]
    output_ids: tuple[int, ...]  # at least one
    reference_ids: tuple[tuple[int, ...], ...] = ()  # most likely first
    eos_token_ids: tuple[int, ...] = ()
    max_new_tokens: int | None = None


@dataclass(slots=True)
class ReplayReport:
    """Counts of a replay, and how long each call of the drafter took, in seconds.

    ``stats`` has acceptance length, rate and positions; its own times are those of the replay. ``observe_times_s``
    starts with the first output token: what ``begin`` reads is in ``begin_time_s``.
    """

    stats: DecodeStats
    begin_time_s: float = 0.0
    propose_times_s: list[float] = field(default_factory=list)
    observe_times_s: list[float] = field(default_factory=list)


def replay(
    recording: Recording,
    drafter: Drafter,
    *,
    max_draft_tokens: int = 15,
    memory: DraftMemory | None = None,
    sampling: SamplingParams | None = None,
) -> ReplayReport:
    """Let ``drafter`` draft a recorded generation.

    ``sampling`` matters to drafters that draw: they must draw as the recorded request did. The memory is read, not
    added to. Raises ValueError for a recording without output, DrafterError.

    >>> from specdec_core.drafters import make_drafter
    >>> report = replay(Recording((1, 2), (5, 6, 7, 8), reference_ids=((5, 6, 7, 8),)), make_drafter("suffix"))
    >>> report.stats.num_decode_passes, report.stats.acceptance_length
    (1, 3.0)
    """
    if not recording.output_ids:
        raise ValueError("a recording needs at least one output token")
    report = ReplayReport(DecodeStats())
    context = DraftContext(
        prompt_ids=recording.prompt_ids,
        reference_ids=recording.reference_ids,
        pipeline=LogitsPipeline(sampling or SamplingParams(), recording.prompt_ids),
        eos_token_ids=recording.eos_token_ids,
        memory=memory,
    )
    for _ in decode(_generation(recording, context, _TimedDrafter(drafter, report), report.stats, max_draft_tokens)):
        pass
    return report


def _generation(
    recording: Recording, context: DraftContext, drafter: Drafter, stats: DecodeStats, max_draft_tokens: int
) -> Generation:
    num_output = len(recording.output_ids)
    return Generation(
        target=_RecordedTarget(recording, max_draft_tokens),
        controller=Controller(drafter),
        context=context,
        stopper=StopChecker(decode=lambda _: "", max_tokens=num_output),
        max_draft_tokens=max_draft_tokens,
        max_new_tokens=max(recording.max_new_tokens or num_output, num_output),
        verify=_recorded_verdict(recording.output_ids),
        stats=stats,
    )


def _recorded_verdict(output_ids: tuple[int, ...]) -> Verify:
    def verify(logits: Tensor, draft: Draft, pipeline: LogitsPipeline, generated_ids: Sequence[int]) -> Verdict:
        start, num_drafted = len(generated_ids), len(draft.token_ids)
        answer = output_ids[start : start + num_drafted + 1]
        num_accepted = common_length(draft.token_ids, answer)
        return Verdict(
            answer[: num_accepted + 1], num_accepted, "bonus" if num_accepted == num_drafted else "recovered"
        )

    return verify


class _RecordedTarget:
    """A target that has only its first token to say: the rest is known to the verdict."""

    vocab_size = context_length = _ENDLESS
    num_cached_prompt_tokens = 0

    def __init__(self, recording: Recording, max_draft_tokens: int) -> None:
        self.geometry = Geometry("law", width=max_draft_tokens + 1)
        self.cache_length = 0
        self._first_token = recording.output_ids[0]

    def prefill(self, token_ids: Sequence[int], before_chunk: Callable[[], None] = lambda: None) -> Tensor:
        """Logits that leave one choice, [first token + 1]."""
        self.cache_length = len(token_ids)
        logits = torch.full((self._first_token + 1,), -torch.inf)
        logits[self._first_token] = 0
        return logits

    def decode(self, token_ids: Sequence[int]) -> Tensor:
        self.cache_length += len(token_ids)
        return torch.empty(0)

    def rollback(self, length: int) -> None:
        self.cache_length = length


class _TimedDrafter:
    def __init__(self, drafter: Drafter, report: ReplayReport) -> None:
        self.name = drafter.name
        self._drafter = drafter
        self._report = report

    def begin(self, context: DraftContext) -> None:
        started = time.perf_counter()
        self._drafter.begin(context)
        self._report.begin_time_s = time.perf_counter() - started

    def propose(self, max_tokens: int) -> Draft:
        started = time.perf_counter()
        draft = self._drafter.propose(max_tokens)
        self._report.propose_times_s.append(time.perf_counter() - started)
        return draft

    def observe(self, token_ids: Sequence[int]) -> None:
        started = time.perf_counter()
        self._drafter.observe(token_ids)
        self._report.observe_times_s.append(time.perf_counter() - started)

    def end(self) -> None:
        self._drafter.end()
