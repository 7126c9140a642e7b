from __future__ import annotations

import pytest
import torch

from specdec_core.drafters.null import NullDrafter
from specdec_core.errors import DrafterError, RequestError
from specdec_core.models.table import TableModel
from specdec_core.sampling import LogitsPipeline, SamplingParams
from specdec_core.testing import OracleDrafter, generate_ids
from specdec_core.types import Draft
from specdec_core.verification import VERIFIERS, Verdict, Verify, residual_law, verify_match, verify_rejection
from specdec_core.verification_batched import verify_match_batched

P, Q = torch.tensor([0.5, 0.3, 0.2]), torch.tensor([0.2, 0.5, 0.3])
NUM_SEEDS = 4_000
WITHIN = 4 * 0.5 / NUM_SEEDS**0.5  # four standard errors of a share, at most


def rejection(draft: Draft, seed: int, law: torch.Tensor = P):
    rows = law.log().repeat(len(draft.token_ids) + 1, 1)
    return verify_rejection(rows, draft, LogitsPipeline(SamplingParams(temperature=1.0, seed=seed)), ())


@pytest.mark.parametrize(("token", "accepted"), [(0, 1.0), (1, 0.6), (2, 2 / 3)])
def test_a_drawn_token_is_accepted_with_the_ratio_of_the_laws(token: int, accepted: float) -> None:
    verdicts = [rejection(Draft((token,), "q", Q.unsqueeze(0)), seed) for seed in range(NUM_SEEDS)]
    assert abs(sum(v.num_accepted for v in verdicts) / NUM_SEEDS - accepted) < WITHIN
    assert {v.token_ids for v in verdicts if v.last == "recovered"} <= {(0,)}  # only there p exceeds q


def test_a_chosen_token_is_accepted_with_its_probability_and_never_drawn_after_a_rejection() -> None:
    verdicts = [rejection(Draft((1,), "chosen"), seed) for seed in range(NUM_SEEDS)]
    assert abs(sum(v.num_accepted for v in verdicts) / NUM_SEEDS - 0.3) < WITHIN
    recovered = [v.token_ids[0] for v in verdicts if v.last == "recovered"]
    assert set(recovered) == {0, 2}
    assert abs(recovered.count(0) / len(recovered) - 5 / 7) < WITHIN / 0.8


def test_equal_laws_accept_everything_and_leave_a_law() -> None:
    """0 / 0 gave NaN elsewhere (transformers#28508)."""
    draft = Draft((0, 1, 2), "same", P.repeat(3, 1))
    assert all(rejection(draft, seed).num_accepted == 3 for seed in range(200))
    assert residual_law(P, P).tolist() == P.tolist()
    assert residual_law(P, Q).sum() == 1


def test_a_token_that_the_target_excludes_is_never_accepted() -> None:
    law = torch.tensor([0.6, 0.4, 0.0])
    verdicts = [rejection(Draft((2,), "q", Q.unsqueeze(0)), seed, law) for seed in range(200)]
    assert {v.num_accepted for v in verdicts} == {0}
    assert {v.token_ids[0] for v in verdicts} <= {0, 1}


@pytest.mark.parametrize(
    "probs",
    [
        Q.unsqueeze(0)[:, :2],
        Q,
        torch.tensor([[0.5, 0.5, 0.0]]),
        torch.tensor([[2.0, 1.0, 1.0]]),
        torch.tensor([[1.2, -0.4, 0.2]]),
        torch.full((1, 3), torch.nan),
        torch.zeros(0, 3),
    ],
    ids=["short rows", "one row", "token impossible", "sums to four", "negative", "nan", "no rows"],
)
def test_probabilities_that_are_no_law_of_the_draft_are_an_error(probs: torch.Tensor) -> None:
    with pytest.raises(DrafterError, match="drafter 'liar' gave probs"):
        rejection(Draft((2,), "liar", probs), 0)


@pytest.mark.parametrize("verify", [verify_match, verify_rejection])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_not_finite_are_an_error_in_both_modes(verify, bad: float, temperature: float) -> None:
    rows = torch.zeros(2, 3)
    rows[1, 2] = bad
    rows[0, 1:] = -50  # the draft token is accepted
    pipeline = LogitsPipeline(SamplingParams(temperature=temperature))
    assert verify(rows, Draft((0,), "q"), pipeline, ()) == Verdict((0,), 1, None)
    with pytest.raises(RequestError, match="at generated index 1 are not finite"):
        verify(rows[1:], Draft(), pipeline, (0,))  # as the next round does


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("verify", [verify_match, verify_match_batched, verify_rejection])
def test_rows_behind_the_end_of_the_text_are_nobodys_error(verify: Verify, monkeypatch: pytest.MonkeyPatch) -> None:
    """A draft goes up to the end-of-sequence token, and its bonus row lies behind it: nothing may be chosen there.

    Plain decoding never looks there. Where the text goes on, both say the same.
    """
    monkeypatch.setitem(VERIFIERS, "match", verify)
    target, prompt = TableModel.random(4, seed=3), [0, 1]
    params = SamplingParams(max_tokens=12)
    ids = generate_ids(target, prompt, params).generated_ids
    end = ids[3]
    pipeline = LogitsPipeline(params, prompt, bad_word_ids=[(*ids[:4], token) for token in range(4)])
    made = generate_ids(target, prompt, pipeline, OracleDrafter(ids), eos_token_ids=[end])
    assert made.generated_ids == ids[: ids.index(end) + 1]
    for drafter in (NullDrafter(), OracleDrafter(ids)):
        with pytest.raises(RequestError, match="index 4"):
            generate_ids(target, prompt, pipeline, drafter)
    verdict = verify(torch.tensor([[9.0, 0.0], [torch.nan, 0.0]]), Draft((0,)), LogitsPipeline(params), ())
    assert verdict == Verdict((0,), 1, None)
