"""The controller in simulated worlds: time is virtual, so nothing here depends on this machine."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest

from specdec_core.acceptance import AcceptanceCurves
from specdec_core.controller import Source
from specdec_core.goodput import BackOff, Goodput
from specdec_core.pass_costs import PassCosts
from specdec_core.types import Draft
from tests.specdec_core.simulation import (
    BITWISE,
    LAW,
    Machine,
    Scripted,
    best_fixed,
    calibrated,
    simulate,
)

NUM_TOKENS = 1_000
MODEL_S = 0.002  # a draft model's token: 0.08 plain passes


def always(share: float) -> Callable[[int], float]:
    return lambda place: share


def sometimes(share: float) -> Callable[[int], float]:
    """Copied text, then text of its own, then copied text again."""
    return lambda place: 0.02 if NUM_TOKENS // 3 < place < 2 * NUM_TOKENS // 3 else share


def drafter(name: str, acceptance: Callable[[int], float], token_s: float = 0.0) -> Callable[[Machine], Scripted]:
    return lambda machine: Scripted(name, acceptance, machine, token_s=token_s, seed=len(name))


WORLDS = {
    "good": [drafter("text", always(0.9))],
    "middling": [drafter("text", always(0.6))],
    "bad": [drafter("text", always(0.02))],
    "good, bad, good": [drafter("text", sometimes(0.9))],
    "a bad text and a good one": [drafter("text", always(0.1)), drafter("more text", always(0.85))],
    "a bad text and a good model": [drafter("text", always(0.1)), drafter("model", always(0.8), MODEL_S)],
    "a fair text and a dear model": [drafter("text", always(0.3)), drafter("model", always(0.8), 0.010)],
    "a fair text and a hopeless model": [drafter("text", always(0.3)), drafter("model", always(0.5), 0.030)],
}


def doubling(now: float) -> float:
    """Half as fast every other two seconds."""
    return 1.0 + int(now / 2) % 2


MACHINES = {
    "bitwise": Machine,
    "bitwise, noisy, speed jumps": lambda: Machine(noise=0.1, speed=doubling),
    "law, dear rows": lambda: Machine(LAW, slope=0.33),
}


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("machine", MACHINES)
def test_it_is_never_much_slower_than_the_best_fixed_choice_and_predicts_its_speed(machine: str, world: str) -> None:
    """The best fixed choice is known only afterwards: the best single drafter at its best draft length."""
    best = best_fixed(MACHINES[machine], WORLDS[world], num_tokens=NUM_TOKENS)
    times, ratios = [], []
    for seed in range(3):
        ours = MACHINES[machine]()
        drafters = [make(ours) for make in WORLDS[world]]
        seconds, stats = simulate(ours, drafters, Goodput(calibrated(ours)), num_tokens=NUM_TOKENS, seed=seed)
        times.append(seconds)
        ratios.append(stats.predicted_tokens_per_second / stats.decode_tokens_per_second)
    assert sum(times) / 3 <= 1.06 * best
    assert sum(ratios) / 3 == pytest.approx(1.0, abs=0.1)


def test_where_the_text_changes_it_beats_every_fixed_choice() -> None:
    machine = Machine(LAW, slope=0.33)
    world = WORLDS["good, bad, good"]
    best = best_fixed(lambda: Machine(LAW, slope=0.33), world, num_tokens=NUM_TOKENS)
    seconds, _ = simulate(machine, [world[0](machine)], Goodput(calibrated(machine)), num_tokens=NUM_TOKENS)
    assert seconds < 0.95 * best


def test_where_nothing_is_accepted_passes_become_plain_ones() -> None:
    """Not a speculative pass with an empty heart: no draft tokens at all, so one row."""
    machine = Machine(LAW, slope=0.33)
    policy = Goodput(calibrated(machine))
    _, stats = simulate(machine, [Scripted("text", always(0.0), machine)], policy, num_tokens=500)
    assert stats.sources["text"].num_drafts < 0.05 * stats.num_decode_passes


def test_free_rows_are_used_even_for_bad_drafts() -> None:
    """A plain pass of the narrowest width has room for three draft tokens: they cost nothing."""
    machine = Machine()
    drafters = [Scripted("text", always(0.1), machine)]
    _, stats = simulate(machine, drafters, Goodput(calibrated(machine)), num_tokens=500)
    counts = stats.sources["text"]
    assert counts.num_drafts > 0.9 * stats.num_decode_passes
    assert counts.num_draft_tokens < 3.3 * counts.num_drafts


def test_a_model_that_does_not_pay_is_tried_ever_more_rarely() -> None:
    machine = Machine()
    model = Scripted("model", always(0.05), machine, token_s=0.010)
    _, stats = simulate(machine, [model], Goodput(calibrated(machine)), num_tokens=2_000)
    gaps = [later - earlier for earlier, later in itertools.pairwise(model.asked_at)]
    assert max(gaps) > 200 and len(gaps) < 0.02 * stats.num_decode_passes
    assert min(gaps) == gaps[0] == 8


def test_a_model_that_gets_better_comes_back() -> None:
    machine = Machine()
    model = Scripted("model", lambda place: 0.02 if place < 400 else 0.9, machine, token_s=0.004)
    simulate(machine, [model], Goodput(calibrated(machine)), num_tokens=2_400)
    while_bad = sum(place < 400 for place in model.asked_at)
    in_the_end = sum(place > 1_400 for place in model.asked_at)
    assert while_bad < 40
    assert in_the_end > 150, "a thousand tokens"


def test_a_model_is_not_asked_where_text_promises_more() -> None:
    machine = Machine()
    text = Scripted("text", always(0.95), machine)
    model = Scripted("model", always(0.9), machine, token_s=0.010)
    _, stats = simulate(machine, [text, model], Goodput(calibrated(machine)), num_tokens=NUM_TOKENS)
    assert stats.sources["model"].num_drafts < 0.1 * stats.sources["text"].num_drafts


def test_every_source_observes_every_token() -> None:
    machine = Machine()
    drafters = [make(machine) for make in WORLDS["a bad text and a good model"]]
    simulate(machine, drafters, Goodput(calibrated(machine)), num_tokens=300)
    assert [source.place for source in drafters] == [300, 300]


def test_what_one_request_taught_serves_the_next() -> None:
    machine = Machine(LAW, slope=0.33)
    policy, text = Goodput(calibrated(machine)), Scripted("text", always(0.0), machine)
    sources = [Source(text, machine.clock)]
    drafted = []
    for _ in range(3):
        policy.begin(sources)
        lengths = []
        for _ in range(30):
            draft = policy.choose(sources, 15).draft
            policy.learn((0,), machine.run(1 + len(draft.token_ids), random.Random(0)))
            lengths.append(len(draft.token_ids))
        drafted.append(sum(lengths))
    assert drafted[0] > drafted[2]


class Drawing(Scripted):
    """A drafter whose tokens are drawn: they come with their law."""

    def propose(self, max_tokens: int) -> Draft:
        import torch

        draft = super().propose(max_tokens)
        return Draft(draft.token_ids, self.name, torch.full((max_tokens, 2), 0.5))


@pytest.mark.parametrize("token_s", [0.0, MODEL_S])
def test_a_drawn_draft_is_verified_as_it_was_asked_for(token_s: float) -> None:
    """Cutting it, or preferring another, after its tokens are known would bias the law in rejection mode."""
    machine, asked = Machine(), []

    class Recording(Drawing):
        def propose(self, max_tokens: int) -> Draft:
            asked.append(max_tokens)
            return super().propose(max_tokens)

    source = Source(Recording("model", always(0.5), machine, token_s=token_s), machine.clock)
    policy = Goodput(calibrated(machine))
    policy.begin([source])
    for _ in range(50):
        num_asked = len(asked)
        draft = policy.choose([source], 15).draft
        assert [len(draft.token_ids)] == (asked[num_asked:] or [0])
        assert draft.probs is None or len(draft.probs) == len(draft.token_ids)
        policy.learn((0,), machine.run(1 + len(draft.token_ids), random.Random(0)))
    assert asked


@pytest.mark.parametrize("geometry", [BITWISE, LAW])
def test_costs_are_learned_from_a_wrong_seed_on_a_machine_whose_speed_jumps(geometry) -> None:
    """Rows four times as dear as the seed says; the speed jumps twofold every few passes."""
    machine = Machine(geometry, slope=0.16, noise=0.1, speed=lambda now: 1.0 + int(now) % 2)
    costs, rng = PassCosts(geometry), random.Random(1)
    for _ in range(200):
        rows = rng.choice([1, 3, 4, 7, 8, 15, 16])
        costs.observe(rows, machine.run(rows, rng))
    for rows in (4, 8, 16):
        true = 1 + 0.16 * (geometry.num_decode_rows(rows) - geometry.num_decode_rows(1))
        assert costs.relative(rows) == pytest.approx(true, rel=0.25)


def test_passes_of_one_kind_do_not_teach_the_other() -> None:
    costs = PassCosts(BITWISE)
    for _ in range(64):
        assert not costs.stale(9)
        costs.observe(9, 0.030)
    assert costs.stale(9) and costs.stale(5) and not costs.stale(1)
    costs.observe(1, 0.020)
    assert not costs.stale(9) and not costs.stale(1)


def test_more_rows_never_count_as_cheaper() -> None:
    costs = PassCosts(BITWISE)
    for _ in range(20):
        costs.observe(1, 0.030)
        costs.observe(8, 0.020)
    assert costs.relative(8) == 1.0


def test_acceptance_is_told_apart_by_strength_and_forgotten() -> None:
    curves = AcceptanceCurves()
    for _ in range(100):
        curves.learn(1, num_accepted=0, num_compared=4)
        curves.learn(20, num_accepted=4, num_compared=4)
    weak, strong = (curves.expected_tokens(strength, 4)[-1] for strength in (1, 20))
    assert weak < 1.15 and strong > 4.5
    curves.fade(0.0)
    fresh = AcceptanceCurves()
    assert all(curves.expected_tokens(strength, 4) == fresh.expected_tokens(strength, 4) for strength in (None, 1, 20))


def test_back_off_doubles_and_a_trial_that_paid_is_repeated_at_once() -> None:
    backoff, waits = BackOff(), []
    for _ in range(7):
        waits.append(next(number for number in itertools.count(1) if backoff.due()))
        backoff.tell(paid=False)
    assert waits == [8, 16, 32, 64, 128, 256, 256]
    backoff.tell(paid=True)
    assert backoff.due()
