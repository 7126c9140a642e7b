"""The power that the gate is going to have on a task's samples, before any change is proposed."""

from __future__ import annotations

from dataclasses import dataclass

from loopeng.checking.last_run import LastRun
from loopeng.improve.choosing import choose_samples
from loopeng.improve.gate.statistics import expected_power, samples_for_power
from loopeng.schema import Task

__all__ = ["GateForecast", "PowerAt", "forecast_gate"]

_BASE_RATES = (0.0, 0.2, 0.4, 0.6, 0.8)


@dataclass(frozen=True)
class PowerAt:
    """At a share of gate samples that pass now. ``samples_needed``: for ``gate.min_power``; None is thousands."""

    base_rate: float
    power: float
    samples_needed: int | None


@dataclass(frozen=True)
class GateForecast:
    """The next look, and its power at the stated alternative: at the gate's own base rate, or at several."""

    num_samples: int  # those a gate would run: no more than gate.samples, and none of the reflect split
    look: int
    alpha: float
    min_power: float
    base_rate_from: str | None  # the run; None where none is known
    powers: tuple[PowerAt, ...]

    @property
    def is_underpowered(self) -> bool:
        """Whether a miss would be "underpowered" for certain, as far as the base rate is known."""
        return all(each.power < self.min_power for each in self.powers)


def forecast_gate(task: Task, last_run: LastRun | None) -> GateForecast | None:
    """None where there is nothing to forecast: improvement is off, no gate samples, or no alpha left for them."""
    number = len(choose_samples(task, "gate"))
    look = last_run.next_look if last_run is not None else 1
    if not task.improve.enabled or not number or look is None:
        return None
    alpha = task.gate.alpha / (look * (look + 1))
    known = last_run.gate_rate if last_run is not None else None
    rates = _BASE_RATES if known is None else (known,)
    return GateForecast(
        num_samples=number,
        look=look,
        alpha=alpha,
        min_power=task.gate.min_power,
        base_rate_from=last_run.gate_rate_from if last_run is not None else None,
        powers=tuple(
            PowerAt(rate, expected_power(number, rate, alpha), samples_for_power(task.gate.min_power, rate, alpha))
            for rate in rates
        ),
    )
