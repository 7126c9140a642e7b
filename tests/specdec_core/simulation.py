"""A world for controllers: virtual time, a machine whose speed jumps, drafters whose acceptance is known."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from specdec_core.controller import Controller, FixedLength, Policy
from specdec_core.drafters.base import DraftContext
from specdec_core.drafters.chain import ChainDrafter
from specdec_core.drafters.null import NullDrafter
from specdec_core.metrics import DecodeStats
from specdec_core.models.base import Geometry
from specdec_core.pass_costs import PassCosts
from specdec_core.sampling import LogitsPipeline, SamplingParams
from specdec_core.sequences import common_length
from specdec_core.types import Draft, Round

Acceptance = Callable[[int], float]  # place in the text -> share of draft tokens accepted there

BITWISE = Geometry("bitwise", 32, narrow_widths=(4, 8, 16))
LAW = Geometry("law", 16)
WRONG = -1


@dataclass
class Clock:
    """Seconds that pass only when told."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Machine:
    """A pass takes ``plain_s * speed(now) * (1 + slope * rows more than a plain pass has)``, give or take noise."""

    geometry: Geometry = BITWISE
    slope: float = 0.04
    plain_s: float = 0.025
    speed: Callable[[float], float] = lambda now: 1.0
    noise: float = 0.0
    clock: Clock = field(default_factory=Clock)

    def run(self, num_tokens: int, rng: random.Random) -> float:
        rows = self.geometry.num_decode_rows(num_tokens) - self.geometry.num_decode_rows(1)
        stall = 8.0 if self.noise and rng.random() < 0.01 else 1.0
        factor = self.speed(self.clock.now) * rng.lognormvariate(0, self.noise) * stall
        seconds = self.plain_s * (1 + self.slope * rows) * factor
        self.clock.now += seconds
        return seconds


class Scripted(NullDrafter):
    """Right with a known probability, token by token; each proposed token takes ``token_s`` on a quiet machine."""

    def __init__(
        self, name: str, acceptance: Acceptance, machine: Machine, *, token_s: float = 0.0, seed: int = 0
    ) -> None:
        self.name, self.place = name, 0
        self._acceptance, self._machine, self._token_s = acceptance, machine, token_s
        self._rng = random.Random(seed)
        self.asked_at: list[int] = []  # places in the text

    def begin(self, context: DraftContext) -> None:
        self.place = 0

    def propose(self, max_tokens: int) -> Draft:
        self.asked_at.append(self.place)
        clock = self._machine.clock
        clock.now += self._token_s * self._machine.speed(clock.now) * max_tokens
        right = 0
        while right < max_tokens and self._rng.random() < self._acceptance(self.place):
            right += 1
        tokens = [self.place + offset for offset in range(right)] + [WRONG] * (max_tokens - right)
        return Draft(tuple(tokens), self.name)

    def observe(self, token_ids: Sequence[int]) -> None:
        self.place += len(token_ids)


def calibrated(machine: Machine) -> PassCosts:
    """Costs after two passes of every width."""
    costs, rng = PassCosts(machine.geometry), random.Random(9)
    for rows in (1, 2, 4, 8, 16, machine.geometry.width) * 2:
        costs.observe(rows, machine.run(rows, rng))
    return costs


def simulate(
    machine: Machine, drafters: Sequence[Scripted], policy: Policy, *, num_tokens: int, most: int = 31, seed: int = 0
) -> tuple[float, DecodeStats]:
    """Decode a text whose token at place i is i: (virtual seconds, stats)."""
    rng, stats = random.Random(seed), DecodeStats()
    controller = Controller(ChainDrafter(drafters), policy, machine.clock)
    controller.begin(DraftContext((1,), (), LogitsPipeline(SamplingParams())), stats)
    started, place = machine.clock.now, 0
    while place < num_tokens:
        draft = controller.propose(min(most, machine.geometry.max_draft_tokens, num_tokens - place - 1))
        seconds = machine.run(1 + len(draft.token_ids), rng)
        num_accepted = common_length(draft.token_ids, range(place, num_tokens))
        emitted = tuple(range(place, place + num_accepted + 1))
        place += len(emitted)
        controller.observe(emitted)
        last = "bonus" if num_accepted == len(draft.token_ids) else "recovered"
        controller.learn(Round(draft, emitted, num_accepted, last), seconds)
        stats.num_decode_passes += 1
    controller.end()
    stats.num_generated_tokens = num_tokens + 1  # the first token is prefill's
    stats.decode_time_s = machine.clock.now - started
    return stats.decode_time_s, stats


def best_fixed(
    make_machine: Callable[[], Machine], make_drafters: Sequence[Callable[[Machine], Scripted]], num_tokens: int
) -> float:
    """The least virtual time of any single drafter with any fixed draft length, plain decoding included."""
    times = []
    for make_drafter in make_drafters:
        for length in (0, 1, 2, 3, 5, 7, 10, 15, 31):
            machine = make_machine()
            times.append(
                simulate(machine, [make_drafter(machine)], FixedLength(), most=length, num_tokens=num_tokens)[0]
            )
    return min(times)
