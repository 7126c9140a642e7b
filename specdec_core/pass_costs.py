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
_LARGEST_STEP = 0.5  # of the logarithm of a ratio: a pass that the system held up says no more than this
_SLOWEST_RATE = 0.1


class RunningMean:
    """A mean that follows: each value moves it by ``rate`` of the difference, and counts as within a factor ``clip``.

    A single outlier moves it little; a lasting jump by a factor of two is followed within ten values.

    >>> mean = RunningMean(rate=0.5)
    >>> for value in (2.0, 4.0, 400.0):
    ...     mean.observe(value)
    >>> mean.value
    4.5
    """

    def __init__(self, rate: float = 0.2, clip: float = 2.0) -> None:
        self._rate = rate
        self._clip = clip
        self.value: float | None = None

    def observe(self, value: float) -> None:
        """Take a positive value into account; others are ignored."""
        if value <= 0:
            return
        if self.value is None:
            self.value = value
        clipped = min(max(value, self.value / self._clip), self.value * self._clip)
        self.value += self._rate * (clipped - self.value)


class PassCosts:
    """T(rows) of one target on the machine as it is now.

    In bitwise exactness there is one cost per width of the geometry. In law exactness costs are kept at the powers of
    two and just above them (kernels change there) and interpolated between.

    >>> costs = PassCosts(Geometry("bitwise", 16, narrow_widths=(4, 8)))
    >>> costs.observe(1, 0.020)
    >>> costs.observe(8, 0.030)
    >>> costs.relative(1), round(costs.relative(8), 2), costs.seconds(3) == costs.seconds(4)
    (1.0, 1.34, True)
    """

    def __init__(self, geometry: Geometry) -> None:
        self._geometry = geometry
        self._anchors = _anchors(geometry)
        self._shape = [math.log1p(_SLOPE_PER_ROW * (rows - self._anchors[0])) for rows in self._anchors]
        self._num_pairs = [1] * len(self._anchors)  # the seed counts as one
        self._speed = RunningMean()
        self._last: tuple[int, float] | None = None

    @property
    def known(self) -> bool:
        """Whether any pass was timed yet."""
        return self._speed.value is not None

    @property
    def plain_seconds(self) -> float:
        """A plain pass, as fast as the machine is now; 0 where none was timed."""
        return self._speed.value or 0.0

    def relative(self, num_tokens: int) -> float:
        """A pass over ``num_tokens`` tokens, in plain passes."""
        return math.exp(self._log_shape(self._rows(num_tokens)) - self._log_shape(self._rows(1)))

    def seconds(self, num_tokens: int) -> float:
        """A pass over ``num_tokens`` tokens; 0 where none was timed."""
        return self.plain_seconds * self.relative(num_tokens)

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
        self._speed.observe(seconds / self.relative(num_tokens))

    def calibrate(
        self, target: TargetModel, *, budget_s: float = 0.25, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        """Time passes of every width in turn while the budget lasts; what it does not reach keeps its seed.

        Starts a new sequence in the target. The first pass warms up and is not counted.
        """
        widths = [rows for rows in self._anchors if rows < target.context_length]
        started = clock()
        target.prefill([0])
        for number, rows in enumerate((self._anchors[0], *widths * 3)):
            if clock() - started + self.seconds(rows) > budget_s:
                break
            pass_started = clock()
            float(target.decode([0] * rows)[-1, 0])  # reading a number waits for the device
            target.rollback(1)
            if number:
                self.observe(rows, clock() - pass_started)
        self.begin()

    def _rows(self, num_tokens: int) -> int:
        return self._geometry.num_decode_rows(num_tokens)

    def _log_shape(self, rows: int) -> float:
        return sum(weight * self._shape[index] for index, weight in self._weights(rows))

    def _weights(self, rows: int) -> list[tuple[int, float]]:
        """The anchors next to ``rows`` with their shares; one anchor where it is met."""
        above = next(index for index, anchor in enumerate(self._anchors) if anchor >= rows)
        if self._anchors[above] == rows:
            return [(above, 1.0)]
        share = (rows - self._anchors[above - 1]) / (self._anchors[above] - self._anchors[above - 1])
        return [(above - 1, 1.0 - share), (above, share)]

    def _learn_pair(self, earlier: tuple[int, float], later: tuple[int, float]) -> None:
        """Move the shape towards the ratio of two passes, the more the fewer pairs it rests on (normalised LMS)."""
        (rows, seconds), (later_rows, later_seconds) = earlier, later
        error = math.log(later_seconds / seconds) - (self._log_shape(later_rows) - self._log_shape(rows))
        error = min(max(error, -_LARGEST_STEP), _LARGEST_STEP)
        direction = dict.fromkeys(range(len(self._anchors)), 0.0)
        for index, weight in self._weights(later_rows):
            direction[index] += weight
        for index, weight in self._weights(rows):
            direction[index] -= weight
        moved = {index: part for index, part in direction.items() if part}
        rate = max(_SLOWEST_RATE, 1 / (1 + min(self._num_pairs[index] for index in moved)))
        step = rate * error / sum(part * part for part in moved.values())
        for index, part in moved.items():
            self._shape[index] += step * part
            self._num_pairs[index] += 1


def _anchors(geometry: Geometry) -> tuple[int, ...]:
    """Row counts whose costs are kept, ascending."""
    if geometry.exactness == "bitwise":
        return geometry.widths
    powers = [2**exponent for exponent in range(geometry.width.bit_length())]
    just_above = [power + 1 for power in powers[2:]]
    return tuple(sorted({rows for rows in (*powers, *just_above, geometry.width) if rows <= geometry.width}))
