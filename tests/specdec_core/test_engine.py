from __future__ import annotations

import gc
import json
import threading
from collections.abc import Iterator

import pytest
import torch
from pydantic import ValidationError

from specdec_core import Engine, GenerationRequest, SamplingParams, load_engine
from specdec_core.audit import audit
from specdec_core.drafters.null import NullDrafter
from specdec_core.errors import ContextOverflowError, DrafterError, ModelLoadError, RequestError
from specdec_core.tokenizer import Tokenizer
from tests.specdec_core.tiny_models import TinyTokenizer, make_tiny_engine

QUESTION = [{"role": "user", "content": "Name three fruits."}]


@pytest.fixture(scope="module")
def engine(embedded_folder) -> Engine:
    """The real model, for what depends on its text."""
    return load_engine(str(embedded_folder), exactness="bitwise", context_length=512)


@pytest.fixture
def tiny(one_thread) -> Engine:
    """A tiny random model with 128 slots, for what does not."""
    return make_tiny_engine()


def request(**changes) -> GenerationRequest:
    sampling = SamplingParams(**{"max_tokens": 16} | changes.pop("sampling", {}))
    return GenerationRequest(**{"messages": QUESTION, "sampling": sampling} | changes)


def test_a_stream_is_the_text_in_whole_pieces(engine: Engine) -> None:
    chunks = list(engine.stream(request()))
    output = engine.generate(request())
    assert "".join(chunk.text for chunk in chunks) == output.text == chunks[-1].output.text
    assert [t for chunk in chunks for t in chunk.token_ids] == list(output.token_ids)
    assert all(chunk.output is None for chunk in chunks[:-1])


def test_log_probabilities_come_with_the_tokens_of_each_chunk(tiny: Engine) -> None:
    for sampling in ({"logprobs": 2}, {"logprobs": 0, "temperature": 1.0, "seed": 3, "stop": ("e",)}, {}):
        chunks = list(tiny.stream(request(sampling=sampling)))
        told = tuple(each for chunk in chunks for each in chunk.logprobs)
        assert told == (chunks[-1].output.logprobs or ())
        if sampling:
            assert [each.token_id for each in told] == [t for chunk in chunks for t in chunk.token_ids]
            assert all(len(chunk.logprobs) == len(chunk.token_ids) for chunk in chunks)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"messages": None, "prompt": ""}, "prompt"),
        ({"messages": None, "prompt_token_ids": (97,)}, "prompt"),
        ({"messages": [{"role": "user", "content": "a" * 128}]}, "prompt"),
        ({"structured": {"regex": "a"}}, "structured"),
        ({"sampling": {"logit_bias": {97: 1.0}}}, "logit_bias"),
    ],
)
def test_an_error_names_the_field_it_is_about(tiny: Engine, wrong: dict, field: str) -> None:
    with pytest.raises(RequestError) as refused:
        tiny.generate(request(**wrong))
    assert refused.value.field == field


def test_reference_texts_change_the_passes_and_never_the_text(engine: Engine) -> None:
    for sampling in ({}, {"temperature": 0.8, "seed": 5}):
        engine.memory.clear()
        alone = engine.generate(request(sampling=sampling))
        engine.memory.clear()
        helped = engine.generate(request(sampling=sampling, reference_texts=[alone.text, "something else"]))
        assert helped.token_ids == alone.token_ids
        assert helped.stats.num_decode_passes < alone.stats.num_decode_passes
        assert helped.stats.acceptance_length > 3


def test_a_stop_string_ends_ids_text_and_stream_together(engine: Engine) -> None:
    whole = engine.generate(request()).text
    stop = whole[len(whole) // 2 :][:3]
    chunks = list(engine.stream(request(sampling={"stop": (stop,)})))
    output = chunks[-1].output
    assert output.finish_reason == "stop" and output.stop_string == stop
    assert output.text == whole[: whole.index(stop)] == "".join(chunk.text for chunk in chunks)
    assert len(output.token_ids) == output.stats.num_generated_tokens


def test_a_prompt_is_exactly_one_of_three(engine: Engine) -> None:
    with pytest.raises(ValidationError, match="exactly one of messages, prompt and prompt_token_ids"):
        GenerationRequest(prompt="a", messages=QUESTION)
    with pytest.raises(ValidationError, match="exactly one of"):
        GenerationRequest()
    ids = tuple(engine.model.tokenizer.encode("Once upon a time"))
    sampling = SamplingParams(max_tokens=5)
    by_text = engine.generate(GenerationRequest(prompt="Once upon a time", sampling=sampling))
    assert engine.generate(GenerationRequest(prompt_token_ids=ids, sampling=sampling)).text == by_text.text


def test_the_engine_says_what_it_runs_on_and_every_output_under_which_numerics(engine: Engine) -> None:
    described = engine.describe()
    assert described.reasons and described.drafter == "suffix"
    assert json.loads(json.dumps(described.to_dict()))["context_length"] == 512
    assert described.pass_widths[-1] == described.fingerprint.width == described.num_speculative_tokens + 1
    output = engine.generate(request(sampling={"max_tokens": 2}))
    assert output.fingerprint == described.fingerprint
    assert json.loads(json.dumps(output.to_dict()))["stats"]["num_generated_tokens"] == 2


def test_a_seed_is_a_text_and_another_seed_another(tiny: Engine) -> None:
    texts = [tiny.generate(request(sampling={"temperature": 1.0, "seed": seed})).text for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_a_stop_string_that_is_a_special_token_ends_the_text(tiny: Engine) -> None:
    """Decoding leaves special tokens out, so ``stop=["<sep>"]`` never came true."""
    assert isinstance(TinyTokenizer(), Tokenizer)
    for seed in range(200):
        sampling = {"temperature": 2.0, "seed": seed}
        ids = tiny.generate(request(sampling=sampling)).token_ids
        if 1 in ids[1:]:
            break
    output = tiny.generate(request(sampling=sampling | {"stop": ("<sep>", "never")}))
    assert (output.finish_reason, output.stop_string) == ("stop", "<sep>")
    assert output.token_ids == ids[: ids.index(1) + 1]
    assert output.text == tiny.model.tokenizer.decode(output.token_ids[:-1])


def test_closing_a_stream_cancels_it_and_frees_the_engine(tiny: Engine) -> None:
    stream = tiny.stream(request())
    next(stream)
    with pytest.raises(RequestError, match="still open in this thread"):
        tiny.generate(request())
    stream.close()
    assert tiny.generate(request()).text


def test_streams_that_are_dropped_or_never_started_do_not_hold_the_engine(tiny: Engine) -> None:
    never_started = tiny.stream(request())
    dropped = tiny.stream(request())
    next(dropped)
    del dropped
    gc.collect()
    assert tiny.generate(request()).text
    never_started.close()
    assert tiny.generate(request()).text


@pytest.mark.parametrize("use", ["generate", "audit", "new engine"])
def test_an_open_stream_is_not_disturbed_by_another_engine_over_the_same_model(tiny: Engine, use: str) -> None:
    """The cache is the model's: a second engine, or the passes it times when it is made, overwrote the first's."""
    expected = tiny.generate(request()).token_ids
    other = Engine(tiny.model, drafter="none")
    another = request(messages=None, prompt="Another text")
    uses = {
        "generate": lambda: other.generate(another),
        "audit": lambda: audit(other, another),
        "new engine": lambda: Engine(tiny.model),
    }
    stream = tiny.stream(request())
    next(stream)
    with pytest.raises(RequestError, match="still open in this thread"):
        uses[use]()
    assert list(stream)[-1].output.token_ids == expected
    uses[use]()


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_a_pass_that_is_interrupted_leaves_the_engine_usable(
    tiny: Engine, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in the middle of a pass: keys and values of half the layers are written, the pointer has not moved."""
    expected = tiny.generate(request())

    def interrupted(*_: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(tiny.model.target.cache, "read", interrupted)  # the first layer has written, and no other
        with pytest.raises(error):
            tiny.generate(request())
    assert tiny.generate(request()).token_ids == expected.token_ids


def test_a_listener_that_raises_ends_the_request_and_the_drafter(tiny: Engine) -> None:
    class Counting(NullDrafter):
        num_ended = 0

        def end(self) -> None:
            self.num_ended += 1

    drafter = Counting()
    listened = Engine(tiny.model, drafter=drafter)
    with pytest.raises(ZeroDivisionError):
        list(listened.stream(request(), on_round=lambda _: 1 / 0))
    assert drafter.num_ended == 1
    assert listened.generate(request()).text


def test_reading_a_prompt_can_be_ended_between_its_chunks(tiny: Engine) -> None:
    """Whoever no longer wants the text raises; what was read by then disturbs no later request."""
    request = GenerationRequest(prompt="x" * 100, sampling=SamplingParams(max_tokens=8))  # two chunks of 64
    wanted = tiny.generate(request).token_ids
    for num_chunks in (0, 1):
        left = iter(range(num_chunks))

        def before_chunk(left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise TimeoutError("no longer wanted")

        with pytest.raises(TimeoutError, match="no longer wanted"):
            list(tiny.stream(request, before_chunk=before_chunk))
        assert tiny.generate(request).token_ids == wanted


def test_threads_take_turns(tiny: Engine) -> None:
    expected, texts = tiny.generate(request()).text, []
    threads = [threading.Thread(target=lambda: texts.append(tiny.generate(request()).text)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == [expected] * 3


def test_a_fingerprint_tells_the_threads_of_now(tiny: Engine) -> None:
    """It kept the number at load: torch.set_num_threads changed the bits and not the fingerprint."""
    assert tiny.generate(request()).fingerprint.num_threads == torch.get_num_threads() == 1
    torch.set_num_threads(2)  # the fixture sets it back
    changed = tiny.generate(request()).fingerprint
    assert changed == tiny.describe().fingerprint
    assert changed.num_threads == 2


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"messages": None, "prompt": ""}, RequestError),
        ({"messages": None, "prompt_token_ids": (1,) * 600}, ContextOverflowError),
        ({"messages": None, "prompt_token_ids": (1, 10**6)}, RequestError),
    ],
    ids=["empty", "too long", "outside the vocabulary"],
)
def test_a_wrong_request_is_a_clear_error_and_the_engine_stays_usable(tiny: Engine, wrong, error) -> None:
    with pytest.raises(error):
        tiny.generate(request(**wrong))
    assert tiny.generate(request(sampling={"max_tokens": 3})).text


def test_a_prompt_that_just_fits_ends_with_the_context(tiny: Engine) -> None:
    output = tiny.generate(GenerationRequest(prompt_token_ids=(50,) * 126, sampling=SamplingParams(max_tokens=9)))
    assert (len(output.token_ids), output.finish_reason) == (2, "length")


def test_a_drafter_that_breaks_is_an_error_and_the_engine_stays_usable(tiny: Engine) -> None:
    class Broken(NullDrafter):
        name = "broken"

        def propose(self, max_tokens):
            raise KeyError("boom")

    broken = Engine(tiny.model, drafter=Broken())
    with pytest.raises(DrafterError, match=r"broken.*KeyError.*boom"):
        broken.generate(request())
    assert tiny.generate(request(sampling={"max_tokens": 3})).text


def test_wrong_engine_settings_are_refused_before_a_model_is_loaded(tiny: Engine) -> None:
    with pytest.raises(RequestError, match="at least 0"):
        Engine(tiny.model, num_speculative_tokens=-1)
    with pytest.raises(RequestError, match="did you mean 'suffix'"):
        load_engine("no-such-model", drafter="sufix")
    with pytest.raises(ModelLoadError):
        load_engine("no-such-model")


def test_draft_length_zero_is_plain_decoding(tiny: Engine) -> None:
    plain = Engine(tiny.model, num_speculative_tokens=0).generate(request())
    assert plain.stats.acceptance_length == 1.0 and plain.stats.num_drafts == 0
