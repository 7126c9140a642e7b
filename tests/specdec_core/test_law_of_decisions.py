"""Who drafts, how much and whether at all may depend on all that is past: the law of rejection mode stands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import pytest
import torch

from specdec_core.controller import Controller, FixedLength, Plan, Policy, Source
from specdec_core.drafters import DraftContext, Drafter, make_drafter
from specdec_core.drafters.chain import ChainDrafter
from specdec_core.drafters.model import ModelDrafter
from specdec_core.goodput import Goodput
from specdec_core.models.table import TableModel
from specdec_core.pass_costs import PassCosts
from specdec_core.sampling import LogitsPipeline, SamplingParams
from specdec_core.structured import ForcedDrafter
from specdec_core.testing import DrawingDrafter, generate_ids
from specdec_core.types import Draft
from specdec_core.verification import Verification
from tests.specdec_core.law_cases import (
    DRAFT_TABLE,
    DRAFTERS,
    PROMPT,
    TARGET,
    VOCAB,
    Case,
    answers,
    law_p_value,
    p_value,
    window_laws,
)

pytestmark = pytest.mark.usefixtures("one_thread")

NUM_DRAWS = 1000
LIMIT = 1e-4


class WhereItWasZero(FixedLength):
    """Looks back at the draft that was refused: where it said 0 for the place that comes now, it drafts again.

    All of it is past. Yet if the draft there were drawn again with the same noise, it would likely be 0 again, and only
    zeros would ever be drafted.
    """

    def begin(self, sources: Sequence[Source]) -> None:
        self._last, self._num_emitted = Draft(), 0

    def choose(self, sources: Sequence[Source], limit: int) -> Plan:
        refused = self._last.token_ids[self._num_emitted :]
        plan = Plan() if refused and refused[0] != 0 else super().choose(sources, limit)
        self._last = plan.draft
        return plan

    def learn(self, token_ids: Sequence[int], pass_time_s: float) -> None:
        self._num_emitted = len(token_ids)


def goodput() -> Policy:
    """Whose costs come from the clock, and so its decisions."""
    costs = PassCosts(TARGET.geometry)
    costs.observe(1, 1e-4)
    return Goodput(costs)


def model_drafter() -> ModelDrafter:
    return ModelDrafter(TableModel(DRAFT_TABLE), vocab_size=VOCAB, min_probability=0.0)


def test_a_policy_may_look_at_drafts_that_were_refused() -> None:
    """Draws from a law that is the same everywhere: with the same noise they would be the same tokens.

    The third token is the first that can stand where a refused draft had said something.
    """
    always = torch.tensor([[1.5, 0, 0, 0]] * VOCAB, dtype=torch.float64)
    case = Case("drawing", "rejection", 4, "plain")
    found = answers(case, 4000, None, lambda answer, seed: Controller(DrawingDrafter(always), WhereItWasZero()))
    law = dict.fromkeys([(token,) for token in range(VOCAB)], 0.0)
    for tokens, probability in window_laws("plain")[0].items():
        law[tokens[2:]] += probability
    assert p_value(Counter(answer[2:3] for answer in found), law) > LIMIT


@pytest.mark.parametrize("make", [model_drafter, lambda: DrawingDrafter(DRAFT_TABLE)], ids=["model", "drawing"])
def test_a_place_that_is_drafted_again_is_drawn_anew(make: Callable[[], Drafter]) -> None:
    """After the same text, in another round. Four tokens: as good as always the same one means the same noise."""
    num_equal = 0
    for seed in range(200):
        pipeline = LogitsPipeline(SamplingParams(temperature=1.0, seed=seed), PROMPT)
        drafter = make()
        drafter.begin(DraftContext(PROMPT, (), pipeline, verification="rejection"))
        drafter.observe([0])
        first = drafter.propose(3).token_ids
        if len(first) > 1:
            drafter.observe(first[:1])
            num_equal += drafter.propose(1).token_ids[0] == first[1]
    assert num_equal < 120


@pytest.mark.parametrize("mode", ["match", "rejection"])
def test_goodput_over_text_and_a_model(mode) -> None:
    """Both kinds of source in one request, and what one request teaches goes on to the next, of another seed."""
    case, policy = Case("model", mode, 4, "plain"), goodput()
    drafters = ChainDrafter([make_drafter("suffix"), model_drafter()])
    controller = Controller(drafters, policy)
    found = answers(case, NUM_DRAWS, None, lambda answer, seed: controller)
    assert law_p_value(case, found) > LIMIT


class Alternately:
    """A grammar: even tokens at even places, odd ones at odd places but for place 3, where only 1 may stand."""

    def allowed(self, generated_ids: Sequence[int]) -> torch.Tensor:
        tokens, place = torch.arange(VOCAB), len(generated_ids)
        return tokens == 1 if place == 3 else tokens % 2 == place % 2

    def forced(self, generated_ids: Sequence[int], max_tokens: int) -> tuple[int, ...]:
        return (1,) if len(generated_ids) == 3 and max_tokens else ()

    def num_possible(self, generated_ids: Sequence[int], token_ids: Sequence[int]) -> int:
        text = [*generated_ids, *token_ids]
        places = range(len(generated_ids), len(text))
        return next((n for n, at in enumerate(places) if not self.allowed(text[:at])[text[at]]), len(token_ids))


@pytest.mark.parametrize("inner", ["model", "drawing", "suffix", "random"])
@pytest.mark.parametrize("mode", ["match", "rejection"])
def test_a_grammar_with_its_forced_drafts(mode: Verification, inner: str) -> None:
    """The law is the model's, restricted to what may follow: token by token, not of whole texts."""
    grammar = Alternately()
    params = [SamplingParams(max_tokens=4, temperature=1.0, seed=seed) for seed in range(NUM_DRAWS)]
    law = TARGET.joint_law(PROMPT, LogitsPipeline(params[0], PROMPT, grammar), 4)
    counts: Counter[tuple[int, ...]] = Counter()
    for seed, each in enumerate(params):
        drafter = ForcedDrafter(DRAFTERS[inner]((), seed), grammar)
        pipeline = LogitsPipeline(each, PROMPT, grammar)
        counts[tuple(generate_ids(TARGET, PROMPT, pipeline, drafter, verification=mode).generated_ids)] += 1
    assert p_value(counts, law) > LIMIT
