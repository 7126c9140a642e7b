"""What a request says of its tokens, through the engine: biases, bans, log probabilities, margins, verification."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import torch

from specdec_core import Engine, GenerationRequest, SamplingParams, engine, load_engine
from specdec_core.controller import FixedLength
from specdec_core.drafters.null import NullDrafter
from specdec_core.errors import RequestError, VocabularyMismatchError
from specdec_core.request_reading import ReadRequest
from specdec_core.testing import OracleDrafter, RandomDrafter
from specdec_core.types import Round
from tests.specdec_core.tiny_models import make_tiny_engine


@pytest.fixture
def tiny() -> Engine:
    return make_tiny_engine()


def request(**sampling) -> GenerationRequest:
    return GenerationRequest(prompt="What is it?", sampling=SamplingParams(**{"max_tokens": 24} | sampling))


VARIED = {"temperature": 1.2, "frequency_penalty": 1.5}
EVERYTHING = {
    "temperature": 1.1,
    "seed": 3,
    "top_p": 0.98,
    "min_p": 0.01,
    "presence_penalty": 0.4,
    "frequency_penalty": 0.3,
    "logit_bias": {40: 2.0, 50: -3.0},
    "bad_words": ("it", "e"),
}


@pytest.mark.parametrize("sampling", [EVERYTHING, EVERYTHING | {"temperature": 0.0}], ids=["sampled", "greedy"])
def test_drafts_change_neither_text_nor_log_probabilities(tiny: Engine, sampling) -> None:
    plain = Engine(tiny.model, drafter="none").generate(request(**sampling, logprobs=3))
    drafters = [OracleDrafter(plain.token_ids), RandomDrafter(97, seed=1), "suffix"]
    for drafter in drafters:
        drafted = Engine(tiny.model, drafter=drafter).generate(request(**sampling, logprobs=3))
        assert drafted.token_ids == plain.token_ids
        assert drafted.logprobs == plain.logprobs
    oracle = Engine(tiny.model, drafter=drafters[0]).generate(request(**sampling))
    assert oracle.stats.acceptance_length > 4
    assert oracle.logprobs is None and oracle.to_dict()["logprobs"] is None


def test_log_probabilities_are_of_the_raw_law_and_go_with_the_ids(tiny: Engine) -> None:
    asked = request(**EVERYTHING, logprobs=2)
    output = tiny.generate(asked)
    target, prompt = tiny.model.target, output.prompt_token_ids
    assert [each.token_id for each in output.logprobs] == list(output.token_ids)
    for index, told in enumerate(output.logprobs):
        law = target.prefill((*prompt, *output.token_ids[:index])).double().log_softmax(-1)
        assert told.logprob == pytest.approx(float(law[told.token_id]), abs=1e-9)
        assert [token for token, _ in told.top] == law.topk(2).indices.tolist()
        assert [value for _, value in told.top] == pytest.approx(law.topk(2).values.tolist(), abs=1e-9)
    assert json.loads(json.dumps(output.to_dict()))["logprobs"][0]["top"][0]["token_id"] == output.logprobs[0].top[0][0]
    assert len(tiny.generate(request(logprobs=1000)).logprobs[0].top) == 97
    assert tiny.generate(request(logprobs=0)).logprobs[0].top == ()


def test_a_stop_inside_an_accepted_run_trims_log_probabilities_and_margins_too() -> None:
    """Ids, text, log probabilities and counts end at the same token; what was verified beyond it is not told."""
    law, asked = make_tiny_engine(exactness="law"), VARIED | {"seed": 2, "logprobs": 1}
    whole = law.generate(request(**asked))
    stop = whole.text[3:5]
    assert whole.text.index(stop) == 3
    oracle = Engine(law.model, drafter=OracleDrafter(whole.token_ids), policy=FixedLength())
    output = oracle.generate(request(**asked, stop=(stop,)))
    assert output.text == whole.text[:3]
    assert output.stats.num_decode_passes == 1 and output.stats.num_accepted_tokens == 4
    assert [each.token_id for each in output.logprobs] == list(output.token_ids) == list(whole.token_ids[:5])
    assert [each.logprob for each in output.logprobs] == pytest.approx([each.logprob for each in whole.logprobs[:5]])
    margins = [law.generate(request(**asked, max_tokens=n)).stats.smallest_margin for n in range(1, 25)]
    assert output.stats.smallest_margin == pytest.approx(margins[4])
    assert margins[-1] < margins[4], "the case must have a nearer choice after the stop"


def test_margins_are_measured_in_law_exactness_and_are_of_logits() -> None:
    assert make_tiny_engine().generate(request()).stats.smallest_margin is None
    law = make_tiny_engine(exactness="law")
    output = law.generate(request())
    target, nearest = law.model.target, math.inf
    for index in range(len(output.token_ids)):
        best = target.prefill((*output.prompt_token_ids, *output.token_ids[:index])).topk(2).values
        nearest = min(nearest, float(best[0] - best[1]))
    assert output.stats.smallest_margin == pytest.approx(nearest, abs=1e-9)
    assert json.loads(json.dumps(output.to_dict()))["stats"]["smallest_margin"] == pytest.approx(nearest, abs=1e-9)


@pytest.mark.parametrize("temperature", [0.0, 1.2])
def test_bad_words_are_not_written_with_or_without_drafts(tiny: Engine, temperature: float) -> None:
    varied = VARIED | {"temperature": temperature}
    free = tiny.generate(request(**varied)).text
    word = free[4:7]
    assert free.index(word) == 4 and word.strip() == word
    for drafter in ("none", OracleDrafter(tiny.model.tokenizer.encode(free)), "suffix"):
        text = Engine(tiny.model, drafter=drafter).generate(request(**varied, bad_words=(word,))).text
        assert word not in text
        assert text[:6] == free[:6], "only the last token of a word is banned, and only after the others"


def test_bad_words_are_read_with_and_without_a_space(tiny: Engine) -> None:
    read = ReadRequest(request(bad_words=("ab", " ab", " ")), tiny.model)
    assert read.bad_word_ids == sorted({(67, 68), (2, 67, 68), (2,)})


def test_a_ban_of_everything_is_an_error_and_the_engine_stays_usable(tiny: Engine) -> None:
    words = (*map(chr, range(32, 127)), "<end>", "<sep>")
    with pytest.raises(RequestError, match=r"leave no token at generated index 0.*bad_words"):
        tiny.generate(request(bad_words=words, temperature=1.0))
    assert tiny.generate(request(bad_words=words[1:])).text == " " * 24


def test_a_bias_outside_the_vocabulary_is_an_error_and_the_engine_stays_usable(tiny: Engine) -> None:
    with pytest.raises(VocabularyMismatchError, match=r"logit_bias names ids outside 0\.\.96: \[97\]"):
        tiny.generate(request(logit_bias={97: 1.0}))
    assert tiny.generate(request(logit_bias={96: 100.0})).text == "~" * 24


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("sampling", [{}, EVERYTHING], ids=["greedy", "sampled"])
def test_logits_that_are_not_finite_leave_the_engine_usable(
    tiny: Engine, bad: float, sampling, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = tiny.generate(request(**sampling)).token_ids
    right = tiny.model.target.decode

    def broken(token_ids):
        rows = right(token_ids).clone()
        rows[:, 5] = bad
        return rows

    with monkeypatch.context() as patch:
        patch.setattr(type(tiny.model.target), "decode", lambda _, token_ids: broken(token_ids))
        with pytest.raises(RequestError, match="logits at generated index 1 are not finite"):
            tiny.generate(request(**sampling))
    assert tiny.generate(request(**sampling)).token_ids == expected


class Noting(NullDrafter):
    """Notes under which verification it was asked."""

    def begin(self, context) -> None:
        self.verification = context.verification


@pytest.mark.parametrize("verification", ["match", "rejection"])
def test_the_mode_reaches_drafter_fingerprint_and_description(verification) -> None:
    model, drafter = make_tiny_engine(exactness="law").model, Noting()
    made = Engine(model, drafter=drafter, verification=verification)
    output = made.generate(request(temperature=1.0))
    assert drafter.verification == output.fingerprint.verification == verification
    assert made.describe().to_dict()["fingerprint"]["verification"] == verification
    assert made.describe().fingerprint == output.fingerprint
    other = Engine(model, verification="match" if verification == "rejection" else "rejection")
    assert other.describe().fingerprint.digest != output.fingerprint.digest


def test_rejection_draws_texts_of_its_own_and_greedily_the_same() -> None:
    """With equal drafts: the text of a seed depends on them in this mode, and so on controller and memory."""
    model = make_tiny_engine(exactness="law").model
    plain = Engine(model, drafter="none")
    mine = Engine(model, drafter="suffix", verification="rejection", policy=FixedLength())
    assert mine.generate(request()).token_ids == plain.generate(request()).token_ids
    texts = [mine.generate(request(temperature=0.7, seed=seed)).text for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_by_rejection_a_request_knows_nothing_of_earlier_ones() -> None:
    """The text of a seed is a draft that knew the noise of that seed: accepted by it again, it would bend the law."""

    def sources_of_the_second(verification) -> set[str]:
        engine = Engine(
            make_tiny_engine(exactness="law").model, drafter="suffix", verification=verification, policy=FixedLength()
        )
        engine.generate(request(temperature=0.7, seed=1))
        rounds: list[Round] = []
        list(engine.stream(request(temperature=0.7, seed=1), on_round=rounds.append))
        return {round_.draft.source for round_ in rounds}

    assert "memory" in sources_of_the_second("match")
    assert "memory" not in sources_of_the_second("rejection")


def test_what_goes_wrong_later_is_not_counted_for_an_earlier_output(tiny: Engine) -> None:
    """The drafters are ended after a request that never began too; their time went to the one before it."""
    stats = tiny.generate(request()).stats
    told = stats.to_dict()
    tiny.generate(request(max_tokens=0))
    with pytest.raises(RequestError, match="empty"):
        tiny.generate(GenerationRequest(prompt_token_ids=()))
    assert stats.to_dict() == told


def test_rejection_and_bits_exclude_each_other(tiny: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RequestError, match='exactness="bitwise"'):
        Engine(tiny.model, verification="rejection")
    with pytest.raises(RequestError, match='exactness="bitwise"'):
        load_engine("no-such-model", verification="rejection", exactness="bitwise")
    with pytest.raises(RequestError, match="unknown verification 'typical'; known: match, rejection"):
        load_engine("no-such-model", verification="typical")
    asked: list[str | None] = []

    def load_model(reference, *, exactness=None, **_):
        asked.append(exactness)
        made = make_tiny_engine(exactness=exactness or "bitwise").model
        return replace(made, reasons=(f"exactness {exactness}: as asked",))

    monkeypatch.setattr(engine, "load_model", load_model)
    described = load_engine("x", verification="rejection").describe()
    assert described.fingerprint.exactness == "law" and "rejection" in described.reasons[-1]
    assert not any(reason.endswith("as asked") for reason in described.reasons)
    load_engine("x")
    assert asked == ["law", None]


def test_the_first_token_of_a_request_is_drawn_from_the_law_too(tiny: Engine) -> None:
    """300 seeds of one token against the raw law's two halves of the vocabulary."""
    asked = [request(temperature=1.0, seed=seed, max_tokens=1) for seed in range(300)]
    tokens = torch.tensor([tiny.generate(each).token_ids[0] for each in asked])
    law = tiny.model.target.prefill(tiny.model.tokenizer.encode("What is it?")).softmax(-1)
    half = law >= law.sort(descending=True).values[3]
    share = float(law[half].sum())
    assert abs(float(half[tokens].double().mean()) - share) < 4 * math.sqrt(share * (1 - share) / 300)
