from __future__ import annotations

import json
import threading

import pytest
from pydantic import ValidationError

from specdec_core import Engine, GenerationRequest, SamplingParams, load_engine
from specdec_core.drafters.null import NullDrafter
from specdec_core.errors import ContextOverflowError, DrafterError, ModelLoadError, RequestError

QUESTION = [{"role": "user", "content": "Name three fruits."}]


@pytest.fixture(scope="module")
def engine(embedded_folder) -> Engine:
    return load_engine(str(embedded_folder), context_length=512)


def request(**changes) -> GenerationRequest:
    sampling = SamplingParams(**{"max_tokens": 24} | changes.pop("sampling", {}))
    return GenerationRequest(**{"messages": QUESTION, "sampling": sampling} | changes)


def test_a_stream_is_the_text_in_whole_pieces(engine: Engine) -> None:
    chunks = list(engine.stream(request()))
    output = engine.generate(request())
    assert "".join(chunk.text for chunk in chunks) == output.text == chunks[-1].output.text
    assert [t for chunk in chunks for t in chunk.token_ids] == list(output.token_ids)
    assert all(chunk.output is None for chunk in chunks[:-1])


def test_reference_texts_change_the_passes_and_never_the_text(embedded_folder) -> None:
    engine = load_engine(str(embedded_folder), exactness="bitwise")
    plain = engine.generate(request())
    for sampling in ({}, {"temperature": 0.8, "seed": 5}):
        alone = engine.generate(request(sampling=sampling))
        helped = engine.generate(request(sampling=sampling, reference_texts=[alone.text, "something else"]))
        assert helped.token_ids == alone.token_ids
    helped = engine.generate(request(reference_texts=[plain.text]))
    assert helped.stats.num_decode_passes < plain.stats.num_decode_passes
    assert helped.stats.acceptance_length > 3


def test_a_seed_is_a_text_and_another_seed_another(engine: Engine) -> None:
    texts = [engine.generate(request(sampling={"temperature": 1.0, "seed": seed})).text for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_a_stop_string_ends_ids_text_and_stream_together(engine: Engine) -> None:
    whole = engine.generate(request()).text
    stop = whole[len(whole) // 2 :][:3]
    chunks = list(engine.stream(request(sampling={"stop": (stop,)})))
    output = chunks[-1].output
    assert output.finish_reason == "stop" and output.stop_string == stop
    assert output.text == whole[: whole.index(stop)] == "".join(chunk.text for chunk in chunks)
    assert len(output.token_ids) == output.stats.num_generated_tokens


def test_closing_a_stream_cancels_it_and_frees_the_engine(engine: Engine) -> None:
    stream = engine.stream(request())
    next(stream)
    with pytest.raises(RequestError, match="still open in this thread"):
        engine.generate(request())
    stream.close()
    assert engine.generate(request()).text


def test_threads_take_turns(engine: Engine) -> None:
    expected, texts = engine.generate(request()).text, []
    threads = [threading.Thread(target=lambda: texts.append(engine.generate(request()).text)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == [expected] * 3


def test_a_prompt_is_exactly_one_of_three(engine: Engine) -> None:
    with pytest.raises(ValidationError, match="exactly one of messages, prompt and prompt_token_ids"):
        GenerationRequest(prompt="a", messages=QUESTION)
    with pytest.raises(ValidationError, match="exactly one of"):
        GenerationRequest()
    ids = tuple(engine.model.tokenizer.encode("Once upon a time"))
    sampling = SamplingParams(max_tokens=5)
    by_text = engine.generate(GenerationRequest(prompt="Once upon a time", sampling=sampling))
    assert engine.generate(GenerationRequest(prompt_token_ids=ids, sampling=sampling)).text == by_text.text


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"messages": None, "prompt": ""}, RequestError),
        ({"messages": None, "prompt_token_ids": (1,) * 600}, ContextOverflowError),
        ({"messages": None, "prompt_token_ids": (1, 10**6)}, RequestError),
    ],
    ids=["empty", "too long", "outside the vocabulary"],
)
def test_a_wrong_request_is_a_clear_error_and_the_engine_stays_usable(engine: Engine, wrong, error) -> None:
    with pytest.raises(error):
        engine.generate(request(**wrong))
    assert engine.generate(request(sampling={"max_tokens": 3})).text


def test_a_prompt_that_just_fits_ends_with_the_context(engine: Engine) -> None:
    output = engine.generate(GenerationRequest(prompt_token_ids=(1000,) * 510, sampling=SamplingParams(max_tokens=9)))
    assert (len(output.token_ids), output.finish_reason) == (2, "length")


def test_a_drafter_that_breaks_is_an_error_and_the_engine_stays_usable(engine: Engine) -> None:
    class Broken(NullDrafter):
        name = "broken"

        def propose(self, max_tokens):
            raise KeyError("boom")

    broken = Engine(engine.model, drafter=Broken())
    with pytest.raises(DrafterError, match=r"broken.*KeyError.*boom"):
        broken.generate(request())
    assert engine.generate(request(sampling={"max_tokens": 3})).text


def test_wrong_engine_settings_are_refused(engine: Engine) -> None:
    with pytest.raises(RequestError, match="at least 0"):
        Engine(engine.model, num_speculative_tokens=-1)
    with pytest.raises(RequestError, match="did you mean 'suffix'"):
        Engine(engine.model, drafter="sufix")
    with pytest.raises(ModelLoadError):
        load_engine("no-such-model")


def test_the_engine_says_what_it_runs_on_and_every_output_under_which_numerics(engine: Engine) -> None:
    described = engine.describe()
    assert described.reasons and described.drafter == "suffix"
    assert json.loads(json.dumps(described.to_dict()))["context_length"] == 512
    output = engine.generate(request(sampling={"max_tokens": 2}))
    assert output.fingerprint == described.fingerprint
    assert json.loads(json.dumps(output.to_dict()))["stats"]["num_generated_tokens"] == 2


def test_draft_length_zero_is_plain_decoding(engine: Engine) -> None:
    plain = Engine(engine.model, num_speculative_tokens=0).generate(request())
    assert plain.stats.acceptance_length == 1.0 and plain.stats.num_drafts == 0
