"""Bad input gets a clear error, and the same engine then answers a good request as a fresh one does."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from specdec_core.controller import FixedLength
from specdec_core.drafters import Drafter, make_drafter
from specdec_core.engine import Engine, load_engine
from specdec_core.errors import (
    ContextOverflowError,
    DrafterError,
    OutOfMemoryError,
    RequestError,
    SpecDecError,
    VocabularyMismatchError,
)
from specdec_core.out_of_memory import is_out_of_memory, saying_what_to_lower
from specdec_core.sampling import SamplingParams
from specdec_core.tokenizer import TransformersTokenizer
from specdec_core.types import Draft, GenerationRequest
from tests.specdec_core.tiny_models import make_tiny_engine

GOOD = GenerationRequest(
    prompt_token_ids=tuple((7 * i) % 90 + 2 for i in range(70)),
    sampling=SamplingParams(max_tokens=20, temperature=0.9, seed=4),
)


def make_engine(drafter: Any = "auto") -> Engine:
    engine = make_tiny_engine(drafter)
    engine.model.target.reuse_prefixes(1 << 24)
    return engine


@pytest.fixture
def engine() -> Engine:
    return make_engine()


@pytest.fixture(scope="module")
def good_ids() -> tuple[int, ...]:
    """The answer of an engine that has seen nothing."""
    return make_tiny_engine().generate(GOOD).token_ids


@pytest.fixture
def usable(good_ids) -> Callable[[Engine], None]:
    """Asks twice: the second time the prompt is cached."""

    def check(engine: Engine) -> None:
        for _ in range(2):
            assert engine.generate(GOOD).token_ids == good_ids

    return check


@contextmanager
def refused(error: type[BaseException], match: str) -> Iterator[None]:
    with pytest.raises(error, match=match):
        yield


def ids_request(*token_ids: int, **sampling: Any) -> GenerationRequest:
    return GenerationRequest(prompt_token_ids=token_ids, sampling=SamplingParams(**sampling))


# Requests.


@pytest.mark.parametrize(
    "empty",
    [{"prompt": ""}, {"prompt_token_ids": ()}, {"messages": ()}, {"messages": ({"role": "user", "content": ""},)}],
)
def test_an_empty_prompt(engine: Engine, usable, empty: dict[str, Any]) -> None:
    engine.generate(GOOD)
    with refused(RequestError, "prompt is empty: give at least one token"):
        engine.generate(GenerationRequest(**empty))
    usable(engine)


@pytest.mark.parametrize("length", [128, 129, 5000])
def test_a_prompt_longer_than_the_context(engine: Engine, usable, length: int) -> None:
    with refused(ContextOverflowError, rf"{length} tokens and the context holds 128.*shorten.*context_length"):
        engine.generate(ids_request(*[5] * length))
    usable(engine)


@pytest.mark.parametrize("wrong", [-1, 97, 1 << 40, -(1 << 70)])
@pytest.mark.parametrize("place", [0, 69])
def test_ids_outside_the_vocabulary(engine: Engine, usable, wrong: int, place: int) -> None:
    token_ids = list(GOOD.prompt_token_ids)
    token_ids[place] = wrong
    with refused(VocabularyMismatchError, f"{wrong} is outside the vocabulary of 97"):
        engine.generate(ids_request(*token_ids))
    usable(engine)


@pytest.mark.parametrize(
    ("sampling", "match"),
    [
        ({"temprature": 1.0}, "temprature"),
        ({"temperature": -1}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_k": 0}, "top_k"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"seed": -1}, "seed"),
    ],
)
def test_an_unknown_sampling_key_or_a_value_without_meaning(sampling: dict[str, Any], match: str) -> None:
    """Refused where the request is made: no engine ever sees it."""
    with refused(ValidationError, match):
        SamplingParams(**sampling)
    with refused(ValidationError, match):
        GenerationRequest(prompt="a", sampling=sampling)


def test_an_unknown_request_key() -> None:
    with refused(ValidationError, "promt"):
        GenerationRequest(promt="a")


def test_a_negative_draft_length_or_prefix_cache(engine: Engine, usable) -> None:
    with refused(RequestError, "num_speculative_tokens must be at least 0, not -1"):
        Engine(engine.model, num_speculative_tokens=-1)
    with refused(RequestError, "prefix_cache_bytes must be at least 0, not -5"):
        load_engine("never-loaded", prefix_cache_bytes=-5)
    usable(engine)


# Drafters.


class Bad:
    """A drafter that does one thing wrong, once or always."""

    name = "bad"

    def __init__(self, method: str, action: Callable[[], Any], *, calls_before: int = 0) -> None:
        self._inner: Drafter = make_drafter("suffix")
        self._method, self._action, self._calls_before = method, action, calls_before
        self.armed = True

    def _do(self, method: str, *arguments: Any) -> Any:
        if self.armed and method == self._method:
            self._calls_before -= 1
            if self._calls_before < 0:
                return self._action()
        return getattr(self._inner, method)(*arguments)

    def begin(self, context: Any) -> None:
        self._do("begin", context)

    def propose(self, max_tokens: int) -> Draft:
        return self._do("propose", max_tokens)

    def observe(self, token_ids: Any) -> None:
        self._do("observe", token_ids)

    def end(self) -> None:
        self._do("end")


def raising(error: BaseException) -> Callable[[], Any]:
    def action() -> Any:
        raise error

    return action


@pytest.mark.parametrize("error", [KeyError("boom"), StopIteration("boom"), RequestError("boom"), MemoryError("boom")])
@pytest.mark.parametrize(
    ("method", "calls_before"),
    [("begin", 0), ("propose", 0), ("propose", 2), ("observe", 0), ("observe", 2), ("end", 0)],
)
def test_a_drafter_that_raises(usable, method: str, calls_before: int, error: Exception) -> None:
    drafter = Bad(method, raising(error), calls_before=calls_before)
    engine = Engine(make_engine().model, drafter=drafter, policy=FixedLength())  # which asks in every round
    with refused(DrafterError, rf"drafter 'bad' raised {type(error).__name__}.*boom"):
        engine.generate(GOOD)
    drafter.armed = False
    usable(engine)
    usable(Engine(engine.model))


def test_what_a_drafter_raises_at_the_end_hides_no_earlier_error(usable) -> None:
    drafter = Bad("end", raising(KeyError("boom")))
    engine = make_engine(drafter)
    with refused(VocabularyMismatchError, "outside"):
        engine.generate(ids_request(1, 200))
    drafter.armed = False
    usable(engine)


@pytest.mark.parametrize(
    ("nonsense", "match"),
    [
        (None, "AttributeError"),
        ((3, 4), "AttributeError"),
        (Draft(None), "TypeError"),
        (Draft((1.5,)), "TypeError"),
        (Draft((None,)), "TypeError"),
        (Draft("abc"), "TypeError"),
        (Draft((3, [4])), "TypeError"),
        (Draft((97,)), r"outside the vocabulary: \(97,\)"),
        (Draft((4, -1)), r"outside the vocabulary: \(4, -1\)"),
        (Draft((1 << 70,)), "outside the vocabulary"),
        (Draft((3,), probs=5), "TypeError"),
    ],
)
def test_a_drafter_that_returns_nonsense(usable, nonsense: Any, match: str) -> None:
    drafter = Bad("propose", lambda: nonsense, calls_before=1)
    engine = make_engine(drafter)
    with refused(DrafterError, rf"drafter 'bad' .*{match}"):
        engine.generate(GOOD)
    drafter.armed = False
    usable(engine)


@pytest.mark.parametrize(
    "strange", [Draft((5,) * 1000), Draft([5, 6]), Draft((True, False)), Draft(torch.tensor([5, 6]))]
)
def test_drafts_that_are_strange_and_can_be_verified_change_nothing(usable, strange: Draft) -> None:
    usable(make_engine(Bad("propose", lambda: strange)))


# The model.


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("passes_before", [0, 1, 3])
def test_logits_that_are_not_finite(engine: Engine, usable, value: float, passes_before: int, monkeypatch) -> None:
    logits, calls = engine.model.target.network.logits, iter(range(100))

    def broken(hidden: torch.Tensor) -> torch.Tensor:
        rows = logits(hidden)
        return torch.full_like(rows, value) if next(calls) >= passes_before else rows

    with monkeypatch.context() as patch:
        patch.setattr(engine.model.target.network, "logits", broken)
        with refused(RequestError, "not finite.*float32"):
            engine.generate(GOOD)
    usable(engine)


def impossible_allocation(*_: object, **__: object) -> None:
    torch.empty(1 << 60, dtype=torch.uint8)  # torch's own message, whatever it is today


MEMORY_ERRORS = [
    impossible_allocation,
    raising(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nMore lines")),
    raising(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")),
    raising(OSError(12, "Cannot allocate memory")),
    raising(MemoryError()),
]


@pytest.mark.parametrize("action", MEMORY_ERRORS, ids=["cpu", "cuda", "cublas", "system", "python"])
@pytest.mark.parametrize("calls_before", [0, 1, 3, 7])
def test_out_of_memory_in_a_pass(engine: Engine, usable, action, calls_before: int, monkeypatch) -> None:
    read, calls = engine.model.target.cache.read, iter(range(1000))

    def short(*arguments: Any) -> Any:
        return action() if next(calls) == calls_before else read(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(engine.model.target.cache, "read", short)
        with refused(OutOfMemoryError, r"while generating.*lower context_length.*smaller model"):
            engine.generate(GOOD)
    usable(engine)


@pytest.mark.parametrize("action", MEMORY_ERRORS, ids=["cpu", "cuda", "cublas", "system", "python"])
def test_out_of_memory_while_blocks_are_copied(engine: Engine, usable, action, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(engine.model.target.cache, "copy", lambda *_: action())
        with refused(OutOfMemoryError, "prefix_cache_bytes"):
            engine.generate(GOOD)
    usable(engine)


@pytest.mark.parametrize("step", ["fetch", "choose_numerics"])
def test_out_of_memory_at_any_step_of_loading(step: str, monkeypatch) -> None:
    """A checkpoint that is converted at load can use up memory before there is a network."""
    monkeypatch.setattr(f"specdec_core.loading.{step}", lambda *_, **__: raising(MemoryError())())
    with refused(OutOfMemoryError, r"while loading the model \(MemoryError\): lower context_length"):
        load_engine("smollm2-135m")


def test_out_of_memory_at_load(embedded_folder, monkeypatch) -> None:
    monkeypatch.setattr("specdec_core.models.runner.LlamaNetwork", impossible_allocation)
    with refused(OutOfMemoryError, r"while loading the model \(RuntimeError.*lower context_length"):
        load_engine(str(embedded_folder))


def test_only_memory_is_called_memory() -> None:
    assert issubclass(OutOfMemoryError, SpecDecError) and not issubclass(OutOfMemoryError, RequestError)
    for error in (RuntimeError("shapes differ"), OSError(2, "no such file"), ValueError("out of memory")):
        assert not is_out_of_memory(error)
        with pytest.raises(type(error)) as caught, saying_what_to_lower("testing"):
            raise error
        assert caught.value is error


# Streams.


@pytest.mark.parametrize("num_chunks", [0, 1, 2, 5])
def test_a_stream_closed_on_the_way(engine: Engine, usable, num_chunks: int) -> None:
    stream = engine.stream(GOOD)
    for _ in range(num_chunks):
        next(stream)
    stream.close()
    stream.close()
    usable(engine)


@pytest.mark.parametrize("num_chunks", [0, 1, 2, 5])
def test_a_stream_collected_on_the_way(engine: Engine, usable, num_chunks: int) -> None:
    stream = engine.stream(GOOD)
    for _ in range(num_chunks):
        next(stream)
    del stream
    gc.collect()
    usable(engine)


def test_an_error_inside_the_consumer(engine: Engine, usable) -> None:
    def consume() -> None:
        with closing(engine.stream(GOOD)) as stream:
            for chunk in stream:
                raise LookupError(chunk)

    with pytest.raises(LookupError):
        consume()
    usable(engine)


def test_an_error_inside_the_listener_is_its_own(engine: Engine, usable) -> None:
    """Also out of memory: it is not the engine's."""
    with pytest.raises(MemoryError) as caught:
        list(engine.stream(GOOD, on_round=lambda _: raising(MemoryError("mine"))()))
    assert not isinstance(caught.value, OutOfMemoryError)
    usable(engine)


def test_two_streams_at_once_from_one_thread(engine: Engine, usable, good_ids) -> None:
    first = engine.stream(GOOD)
    chunks = [next(first)]
    with refused(RequestError, "still open in this thread: exhaust it or close it first"):
        next(engine.stream(GOOD))
    chunks += first
    assert chunks[-1].output.token_ids == good_ids, "the first one is not disturbed"
    usable(engine)


def test_two_engines_over_one_model_do_not_write_into_each_others_sequence(engine: Engine, usable, good_ids) -> None:
    """A model has one cache. Engines once held themselves, not the model: the second text took over the first one's
    cache, and the first went on in it, with other tokens and no error."""
    plain = Engine(engine.model, drafter="none")
    other = ids_request(9, 8, 7, 6, 5, 4, 3, max_tokens=20)
    first = engine.stream(GOOD)
    chunks = [next(first)]
    with refused(RequestError, "over this model is still open in this thread"):
        plain.generate(other)
    with refused(RequestError, "over this model is still open in this thread"):
        Engine(engine.model)  # it would measure passes
    chunks += first
    assert chunks[-1].output.token_ids == good_ids, "the first one is not disturbed"
    usable(engine)
    usable(plain)


def test_engines_over_one_model_wait_for_each_other_in_threads(engine: Engine, good_ids) -> None:
    engines = [engine, Engine(engine.model, drafter="none"), Engine(engine.model, drafter="ngram")]
    with ThreadPoolExecutor(len(engines)) as pool:
        outputs = list(pool.map(lambda each: [each.generate(GOOD).token_ids for _ in range(8)], engines))
    assert outputs == [[good_ids] * 8] * len(engines)


@pytest.mark.parametrize("wrong", ["Name three fruits.", {"prompt": "x"}, None])
def test_what_is_no_request(engine: Engine, usable, wrong: Any) -> None:
    with refused(RequestError, "a GenerationRequest is needed"):
        engine.generate(wrong)
    usable(engine)


def test_no_drafter_in_the_list() -> None:
    with refused(RequestError, "no drafter in the list"):
        make_engine([])


def test_no_messages(embedded_folder) -> None:
    """The template library says so with an error of its own."""
    with refused(RequestError, "refuses these messages: .*empty conversation"):
        TransformersTokenizer(embedded_folder).encode_chat([])


@pytest.mark.parametrize("calls_before", range(8))
def test_an_interrupt_in_the_middle_of_a_pass(engine: Engine, usable, calls_before: int, monkeypatch) -> None:
    read, calls = engine.model.target.cache.read, iter(range(1000))

    def interrupting(*arguments: Any) -> Any:
        if next(calls) == calls_before:
            raise KeyboardInterrupt
        return read(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(engine.model.target.cache, "read", interrupting)
        with pytest.raises(KeyboardInterrupt):
            engine.generate(GOOD)
    usable(engine)


def test_an_interrupt_between_pass_and_commit(engine: Engine, usable, monkeypatch) -> None:
    rollback, calls = engine.model.target.rollback, iter(range(100))

    def interrupting(length: int) -> None:
        if next(calls) == 2:
            raise KeyboardInterrupt
        rollback(length)

    with monkeypatch.context() as patch:
        patch.setattr(engine.model.target, "rollback", interrupting)
        with pytest.raises(KeyboardInterrupt):
            engine.generate(GOOD)
    usable(engine)
