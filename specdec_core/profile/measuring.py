"""Measures what passes of a loaded model cost here, and what follows from it for drafts.

Times are wall clock, with the device idle before and after. Passes of different row counts are interleaved in rotation,
because a machine's speed changes within seconds; medians and quartiles are kept. Numerics are never chosen by timings.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import torch

from specdec_core.errors import ContextOverflowError, RequestError
from specdec_core.loading import LoadedModel
from specdec_core.models.base import Geometry, TargetModel
from specdec_core.models.runner import LlamaTarget
from specdec_core.profile.machine import MachinePeaks, machine_load, measure_peaks, timed
from specdec_core.profile.pass_work import PassWork, decode_work, prefill_flops
from specdec_core.theory import break_even_acceptance, optimal_draft_length, speedup

__all__ = ["ModelProfile", "Timing", "measure_passes", "measure_prefill", "profile_model", "row_counts"]

_SEED = 20240229
_MAX_PREFILL_REPEATS = 3  # a prompt takes as long as many passes


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one thing measured several times."""

    median_s: float
    lower_quartile_s: float
    upper_quartile_s: float
    num_repeats: int

    @classmethod
    def of(cls, times_s: Sequence[float]) -> Timing:
        """Median and quartiles, interpolated. Raises RequestError for no times.

        >>> Timing.of([3.0, 1.0, 2.0, 5.0, 4.0])
        Timing(median_s=3.0, lower_quartile_s=2.0, upper_quartile_s=4.0, num_repeats=5)
        """
        if not times_s:
            raise RequestError("nothing was measured: ask for at least one repeat")
        if len(times_s) == 1:
            return cls(times_s[0], times_s[0], times_s[0], 1)
        lower, median, upper = statistics.quantiles(times_s, n=4, method="inclusive")
        return cls(median, lower, upper, len(times_s))


@dataclass(frozen=True, slots=True)
class ModelProfile:
    """Passes of one model on one machine, and what they say about drafts.

    ``draft_cost`` is the time to draft a token in plain passes: nearly 0 for text drafts, more for a second model.
    """

    model: LoadedModel
    measured_at: datetime
    load_average: float | None  # processes that wanted a core in the minute before, where the system tells
    num_cached_tokens: int  # in the cache before every pass; also the prompt that prefill read
    peaks: MachinePeaks
    passes: Mapping[int, Timing]  # by rows
    prefill: Timing
    draft_cost: float = 0.0

    @property
    def plain_rows(self) -> int:
        """Rows of a pass without a draft."""
        return self.model.geometry.num_decode_rows(1)

    @property
    def prefill_flops(self) -> int:
        """FLOP of reading the prompt."""
        return prefill_flops(_countable(self.model), self.num_cached_tokens)

    def work(self, num_rows: int) -> PassWork:
        """What a pass of so many rows reads and computes."""
        return decode_work(_countable(self.model), num_rows, self.num_cached_tokens)

    def pass_cost(self, num_draft_tokens: int) -> float:
        """v: the time of a pass that verifies so many drafts, in plain passes."""
        num_rows = self.model.geometry.num_decode_rows(num_draft_tokens + 1)
        return self.passes[num_rows].median_s / self.passes[self.plain_rows].median_s

    def break_even_acceptance(self, num_draft_tokens: int) -> float | None:
        """Above it drafts of this length gain; None where they cannot."""
        verify_cost = self.pass_cost(num_draft_tokens)
        return break_even_acceptance(num_draft_tokens, verify_cost=verify_cost, draft_cost=self.draft_cost)

    def optimum(self, acceptance: float) -> tuple[int, float]:
        """The best draft length at this acceptance (0: plain decoding), and its speed as a multiple of plain."""
        costs = [self.pass_cost(length) for length in range(self.model.geometry.max_draft_tokens + 1)]
        length = optimal_draft_length(acceptance, costs, draft_time=self.draft_cost)
        return length, speedup(acceptance, length, verify_cost=costs[length], draft_cost=self.draft_cost)


def row_counts(geometry: Geometry) -> tuple[int, ...]:
    """Rows that a decode pass can have: the widths in bitwise exactness, 1 to the width in law.

    >>> row_counts(Geometry("bitwise", 16, narrow_widths=(4, 8))), row_counts(Geometry("law", 3))
    ((4, 8, 16), (1, 2, 3))
    """
    return geometry.widths if geometry.exactness == "bitwise" else tuple(range(1, geometry.width + 1))


def measure_passes(
    target: TargetModel,
    device: torch.device,
    *,
    num_repeats: int,
    on_progress: Callable[[str], None] = lambda _: None,
) -> dict[int, Timing]:
    """Times of full decode passes behind what the cache holds, by rows. The sequence in the cache stays as it is.

    Raises RequestError for less than one repeat, or where no pass of the widest kind begins there; ContextOverflowError
    where it does not fit the context.
    """
    counts, length = row_counts(target.geometry), target.cache_length
    if length + counts[-1] > target.context_length:
        raise ContextOverflowError(
            f"{length} tokens and a pass of {counts[-1]} rows exceed the context of {target.context_length}:"
            " measure behind fewer tokens"
        )
    if (most := target.geometry.num_tokens_from(length)) < counts[-1]:
        raise RequestError(
            f"no pass behind {length} tokens holds more than {most}, and the widest has {counts[-1]} rows:"
            f" measure behind {length - counts[-1]} tokens, for example"
        )
    ids = _random_ids(target.vocab_size, counts[-1])
    times_s: dict[int, list[float]] = {num_rows: [] for num_rows in counts}
    try:
        for repeat in range(-1, num_repeats):  # the first round warms up
            on_progress(f"decode passes, {repeat + 1} of {num_repeats} rounds")
            for num_rows in counts:
                time_s = timed(device, lambda num_rows=num_rows: target.decode(ids[:num_rows]))  # type: ignore[misc]
                target.rollback(length)
                if repeat >= 0:
                    times_s[num_rows].append(time_s)
    finally:
        target.rollback(length)
    return {num_rows: Timing.of(times) for num_rows, times in times_s.items()}


def measure_prefill(
    target: TargetModel,
    device: torch.device,
    *,
    num_tokens: int,
    num_repeats: int,
    on_progress: Callable[[str], None] = lambda _: None,
) -> Timing:
    """Times of reading a prompt of random tokens, which the cache holds afterwards instead of what it held.

    Raises RequestError for less than one repeat or token, ContextOverflowError for a prompt that does not fit.
    """
    ids = _random_ids(target.vocab_size, num_tokens)
    times_s = []
    for repeat in range(num_repeats):
        on_progress(f"prefill of {num_tokens} tokens, {repeat} of {num_repeats}")
        times_s.append(timed(device, lambda: target.prefill(ids)))
    return Timing.of(times_s)


def profile_model(
    model: LoadedModel,
    *,
    num_repeats: int = 10,
    num_cached_tokens: int = 256,
    draft_cost: float = 0.0,
    on_progress: Callable[[str], None] = lambda _: None,
) -> ModelProfile:
    """Measure a model that nothing else uses meanwhile. Its cache is empty afterwards.

    Args:
        model: From :func:`specdec_core.loading.load_model`.
        num_repeats: Passes per row count; prefill is measured at most three times.
        num_cached_tokens: Length of the prompt, and of the past that every pass attends over.
        draft_cost: Time to draft one token, in plain passes.
        on_progress: Hears what is being measured.

    Raises:
        RequestError: no repeats, no tokens or a negative draft cost; a model whose bytes are not counted here.
        ContextOverflowError: the tokens do not fit the model's context.
    """
    _check_arguments(num_repeats, num_cached_tokens, draft_cost)
    target, device, load_average = _countable(model), model.device, machine_load()
    prefill_repeats = min(num_repeats, _MAX_PREFILL_REPEATS)
    with model.in_use.held():
        try:
            on_progress("memory and matrix product")
            peaks = measure_peaks(device, model.dtype)
            prefill = measure_prefill(
                target, device, num_tokens=num_cached_tokens, num_repeats=prefill_repeats, on_progress=on_progress
            )
            passes = measure_passes(target, device, num_repeats=num_repeats, on_progress=on_progress)
            on_progress("memory and matrix product again")
            peaks = peaks.better(measure_peaks(device, model.dtype))
        finally:
            target.rollback(0)
    measured_at = datetime.now(UTC)
    return ModelProfile(model, measured_at, load_average, num_cached_tokens, peaks, passes, prefill, draft_cost)


def _countable(model: LoadedModel) -> LlamaTarget:
    """Its target. Bytes and FLOP are counted from the shapes of our own forward, so other models have no profile."""
    if not isinstance(model.target, LlamaTarget):
        raise RequestError(
            f"{model.name} runs through transformers' forward; profiles are made of the Llama family only"
        )
    return model.target


def _check_arguments(num_repeats: int, num_cached_tokens: int, draft_cost: float) -> None:
    if num_repeats < 1 or num_cached_tokens < 1 or not draft_cost >= 0:
        raise RequestError(
            "repeats and cached tokens must be at least 1 and the draft cost at least 0, got"
            f" {num_repeats!r}, {num_cached_tokens!r} and {draft_cost!r}"
        )


def _random_ids(vocab_size: int, num_ids: int) -> list[int]:
    generator = torch.Generator().manual_seed(_SEED)
    ids: list[int] = torch.randint(vocab_size, (num_ids,), generator=generator).tolist()
    return ids
