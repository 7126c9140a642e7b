"""What a decode pass costs by the number of its rows: T(rows), learned while decoding.

The speed of a machine changes twofold within minutes, the ratio between a narrow and a wide pass hardly does. So the
two are learned apart: one factor follows the machine pass by pass, and the shape, T(rows) in plain passes, is learned
slowly from pairs of neighbouring passes of different width, in which the machine's speed cancels.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from specdec_core.models.base import Geometry, TargetModel

__all__ = ["PassCosts", "RunningMean"]

_SLOPE_PER_ROW = 0.04  # seed: measured on 2-core AVX512-BF16 CPUs for 135M and 1.5B parameters
# Variances of logarithms of cost ratios.
_SEED_VARIANCE = 1.0  # elsewhere the seed may be wrong by several times
_PAIR_VARIANCE = 0.04  # of one measured ratio
_LEAST_VARIANCE = 0.005  # so that the shape can still follow
_MOST_ALIKE = 64
_MOST_DEVIATIONS = 2.0  # a pass that the system held up says no more than this


class RunningMean:
    """A mean that follows: plain at first, later each value moves it by ``rate`` of the difference.

    A value counts as at most ``clip`` times the mean: a call that the system held up says little, while no call is
    faster than it can be.

    >>> mean = RunningMean(rate=0.5)
    >>> for value in (2.0, 4.0, 400.0):
    ...     mean.observe(value)
    >>> mean.value
    7.5
    """

    def __init__(self, rate: float = 0.2, clip: float = 4.0) -> None:
        self._rate = rate
        self._clip = clip
        self._num_values = 0
        self.value: float | None = None

    def observe(self, value: float) -> None:
        """Take a value above 0 into account."""
        self._num_values += 1
        if self.value is None:
            self.value = value
        rate = max(self._rate, 1 / self._num_values)
        self.value += rate * (min(value, self.value * self._clip) - self.value)


class PassCosts:
    """T(rows) of one target on the machine as it is now.

    In bitwise exactness there is one cost per width of the geometry. In law exactness costs are kept at the powers of
    two and just above them (kernels change there) and interpolated between.

    >>> costs = PassCosts(Geometry("bitwise", 16, narrow_widths=(4, 8)))
    >>> costs.observe(1, 0.020)
    >>> costs.observe(8, 0.030)
    >>> costs.relative(1), round(costs.relative(8), 2), costs.seconds(3) == costs.seconds(4)
    (1.0, 1.49, True)
    """

    def __init__(self, geometry: Geometry) -> None:
        self._geometry = geometry
        self._anchors = _anchors(geometry)
        self._shape = [math.log1p(_SLOPE_PER_ROW * (rows - self._anchors[0])) for rows in self._anchors]
        self._variance = [0.0, *[_SEED_VARIANCE] * (len(self._anchors) - 1)]  # a plain pass is the unit
        self._speed = RunningMean()
        self._last: tuple[int, float] | None = None
        self._was_wide, self._num_alike = False, 0

    @property
    def known(self) -> bool:
        """Whether any pass was timed yet."""
        return self._speed.value is not None

    @property
    def plain_seconds(self) -> float:
        """A plain pass, as fast as the machine is now; 0 where none was timed."""
        return self._speed.value or 0.0

    @property
    def due(self) -> bool:
        """Whether the last 64 passes were all plain ones, or all wider."""
        return self._num_alike >= _MOST_ALIKE

    def relative(self, num_tokens: int) -> float:
        """A pass over ``num_tokens`` tokens, in plain passes."""
        return self._cost(self._rows(num_tokens))

    def seconds(self, num_tokens: int) -> float:
        """A pass over ``num_tokens`` tokens; 0 where none was timed."""
        return self.plain_seconds * self.relative(num_tokens)

    def stale(self, num_tokens: int) -> bool:
        """Whether a pass over so many tokens is of the kind that the last 64 were.

        Such passes say how fast the machine is, not what a wide one costs beside a plain one.
        """
        return self.due and self._is_wide(num_tokens) == self._was_wide

    def begin(self) -> None:
        """A new request: its first pass makes no pair with the last one of the request before."""
        self._last = None

    def observe(self, num_tokens: int, seconds: float) -> None:
        """A pass over ``num_tokens`` tokens took so long."""
        if seconds <= 0:
            return
        rows = self._rows(num_tokens)
        if self._last is not None and self._last[0] != rows:
            self._learn_pair(self._last, (rows, seconds))
        self._last = (rows, seconds)
        self._num_alike = self._num_alike + 1 if self._is_wide(num_tokens) == self._was_wide else 1
        self._was_wide = self._is_wide(num_tokens)
        self._speed.observe(seconds / self.relative(num_tokens))

    def calibrate(
        self, target: TargetModel, *, budget_s: float = 0.25, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        """Time passes of every width in turn while the budget lasts; what it does not reach keeps its seed.

        Starts a new sequence in the target. The first pass warms up and is not counted.
        """
        widths = [rows for rows in self._anchors if rows < target.context_length]
        target.prefill([0])
        started = clock()
        for number, rows in enumerate((self._anchors[0], *widths * 3)):
            if clock() - started + self.seconds(rows) > budget_s:
                break
            pass_started = clock()
            float(target.decode([0] * rows)[-1, 0])  # reading a number waits for the device
            target.rollback(1)
            if number:
                self.observe(rows, clock() - pass_started)
        self.begin()

    def _is_wide(self, num_tokens: int) -> bool:
        return self._rows(num_tokens) > self._anchors[0]

    def _rows(self, num_tokens: int) -> int:
        return self._geometry.num_decode_rows(num_tokens)

    def _cost(self, rows: int) -> float:
        """In plain passes; never less than that of fewer rows."""
        parts = self._parts(rows)
        below = max(self._shape[: min(parts) + 1])
        return max(math.exp(below), sum(parts.values()))

    def _parts(self, rows: int) -> dict[int, float]:
        """What the anchors next to ``rows`` add to its cost, interpolated; one anchor where it is met."""
        above = next(index for index, anchor in enumerate(self._anchors) if anchor >= rows)
        if self._anchors[above] == rows:
            return {above: math.exp(self._shape[above])}
        share = (rows - self._anchors[above - 1]) / (self._anchors[above] - self._anchors[above - 1])
        below_part, above_part = math.exp(self._shape[above - 1]), math.exp(self._shape[above])
        return {above - 1: (1 - share) * below_part, above: share * above_part}

    def _learn_pair(self, earlier: tuple[int, float], later: tuple[int, float]) -> None:
        """Move the shape towards the ratio of two passes, what is least known most (a Kalman filter, diagonal)."""
        (rows, seconds), (later_rows, later_seconds) = earlier, later
        cost, later_cost = self._cost(rows), self._cost(later_rows)
        parts = {index: part / later_cost for index, part in self._parts(later_rows).items()}  # of d log(ratio)
        for index, part in self._parts(rows).items():
            parts[index] = parts.get(index, 0.0) - part / cost
        variance = sum(self._variance[index] * part * part for index, part in parts.items()) + _PAIR_VARIANCE
        error = math.log(later_seconds / seconds * cost / later_cost)
        most = _MOST_DEVIATIONS * math.sqrt(variance)
        error = min(max(error, -most), most)
        for index, part in parts.items():
            gain = self._variance[index] * part / variance
            self._shape[index] += gain * error
            if index:
                self._variance[index] = max(self._variance[index] * (1 - gain * part), _LEAST_VARIANCE)


def _anchors(geometry: Geometry) -> tuple[int, ...]:
    """Row counts whose costs are kept, ascending."""
    if geometry.exactness == "bitwise":
        return geometry.widths
    powers = [2**exponent for exponent in range(geometry.width.bit_length())]
    just_above = [power + 1 for power in powers[2:]]
    return tuple(sorted({rows for rows in (*powers, *just_above, geometry.width) if rows <= geometry.width}))
