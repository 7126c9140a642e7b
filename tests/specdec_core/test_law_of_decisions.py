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
from specdec_core.testing import DrawingDrafter
from specdec_core.types import Draft
from tests.specdec_core.law_cases import (
    DRAFT_TABLE,
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
