from __future__ import annotations

import json
import math

import pytest

from specdec_core import Engine, GenerationRequest, SamplingParams
from specdec_core.audit import audit
from specdec_core.drafters.null import NullDrafter
from specdec_core.errors import RequestError
from specdec_core.request_reading import ReadRequest
from specdec_core.types import Draft
from specdec_core.verification import VERIFIERS, Verdict, verify_match
from tests.specdec_core.tiny_models import make_tiny_engine


class Guess(NullDrafter):
    """Drafts the same token over and over."""

    name = "guess"

    def propose(self, max_tokens: int) -> Draft:
        return Draft((40,) * max_tokens, self.name)


def request(**sampling) -> GenerationRequest:
    return GenerationRequest(prompt="What is it?", sampling=SamplingParams(**{"max_tokens": 24} | sampling))


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_a_sound_engine_passes(temperature: float) -> None:
    report = audit(make_tiny_engine("suffix"), request(temperature=temperature, seed=4))
    assert report.equal and report.divergence is None
    assert report.plain.stats.num_drafts == 0
    assert json.loads(json.dumps(report.to_dict()))["equal"] is True


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_a_lenient_verifier_is_found_with_place_tokens_and_margin(
    temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Accepts every draft token once seven tokens are there, whatever the target says."""

    def lenient(logits, draft, pipeline, generated_ids) -> Verdict:
        verdict = verify_match(logits, draft, pipeline, generated_ids)
        if len(generated_ids) < 7 or not draft.token_ids:
            return verdict
        last = pipeline.choose(logits[len(draft.token_ids)], [*generated_ids, *draft.token_ids])
        return Verdict((*draft.token_ids, last), len(draft.token_ids), "bonus")

    monkeypatch.setitem(VERIFIERS, "match", lenient)
    engine, asked = Engine(make_tiny_engine().model, drafter=Guess()), request(temperature=temperature, seed=4)
    report = audit(engine, asked)
    divergence = report.divergence
    assert not report.equal and divergence is not None
    plain, other = report.plain.token_ids, report.speculative.token_ids
    index = divergence.index
    assert index >= 7 and plain[:index] == other[:index]
    assert (divergence.plain_token_id, divergence.speculative_token_id) == (plain[index], other[index])
    assert divergence.speculative_text == engine.model.tokenizer.token_text(other[index])
    assert divergence.margin is not None and 0 < divergence.margin < math.inf
    target, pipeline = (
        engine.model.target,
        ReadRequest(asked, engine.model).pipeline,
    )  # the margin by another way: one long prefill
    logits = target.prefill((*report.plain.prompt_token_ids, *plain[:index]))
    scores = pipeline.scores(logits, plain[:index]) * (temperature or 1.0)
    assert divergence.margin == pytest.approx(float(scores[plain[index]] - scores[other[index]]), abs=1e-6)
    assert json.loads(json.dumps(report.to_dict()))["divergence"]["index"] == index


def test_rejection_is_not_audited_against_a_text_it_does_not_promise() -> None:
    engine = Engine(make_tiny_engine(exactness="law").model, verification="rejection")
    with pytest.raises(RequestError, match="audit with match"):
        audit(engine, request())
