"""What holds for every drafter, whatever it is asked and in which order."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec_core.drafters import DraftContext, Drafter, DraftMemory, make_drafter
from specdec_core.drafters.chain import chained
from specdec_core.drafters.model import ModelDrafter
from specdec_core.errors import DrafterError
from specdec_core.sampling import LogitsPipeline, SamplingParams
from specdec_core.testing import generate_ids
from tests.specdec_core.tiny_models import make_tiny_llama

TOKENS = st.lists(st.integers(0, 4), min_size=1, max_size=10)
CALLS = st.lists(
    st.one_of(
        st.tuples(st.just("begin"), TOKENS, st.lists(TOKENS, max_size=2)),
        st.tuples(st.just("observe"), TOKENS),
        st.tuples(st.just("propose"), st.integers(1, 6)),
        st.tuples(st.just("end")),
    ),
    max_size=12,
)
NAMES = ["suffix", "ngram", "none", "chain", "model"]
MODEL = ModelDrafter(make_tiny_llama(exactness="law", context_length=128), vocab_size=97)


def drafter_of(name: str) -> Drafter:
    """The model's cache is shared by all, so that what it keeps would show."""
    if name == "chain":
        return make_drafter(["ngram", "suffix"])
    return MODEL if name == "model" else make_drafter(name)


def context(prompt: list[int], references: list[list[int]], memory: DraftMemory | None = None) -> DraftContext:
    pipeline = LogitsPipeline(SamplingParams(temperature=0.7, seed=2), prompt)
    return DraftContext(tuple(prompt), tuple(map(tuple, references)), pipeline, (4,), memory=memory)


@pytest.mark.parametrize("name", NAMES)
@given(calls=CALLS, prompt=TOKENS, references=st.lists(TOKENS, max_size=2), emitted=TOKENS)
@settings(max_examples=15, deadline=None)
def test_no_call_fails_and_none_leaves_a_trace(
    name: str, calls: list[tuple], prompt: list[int], references: list[list[int]], emitted: list[int]
) -> None:
    drafter, fresh = drafter_of(name), drafter_of(name)
    for kind, *arguments in calls:
        if kind == "begin":
            drafter.begin(context(*arguments))
        elif kind == "propose":
            assert len(drafter.propose(*arguments).token_ids) <= arguments[0]
        else:
            getattr(drafter, kind)(*arguments)

    def drafts(of: Drafter) -> list[object]:
        found = []
        of.begin(context(prompt, references))
        for token_id in emitted:
            draft = of.propose(5)
            found.append((draft.token_ids, draft.source, draft.match_length))
            of.observe([token_id])
        return found

    assert drafts(drafter) == drafts(fresh)


@pytest.mark.parametrize("name", NAMES)
def test_after_an_error_in_the_middle_the_next_request_is_right(name: str) -> None:
    target, sampling = make_tiny_llama(), SamplingParams(max_tokens=30)
    drafter = drafter_of(name)
    plain = generate_ids(target, [7, 3, 9], sampling).generated_ids
    part = chained(drafter)[0]
    original, calls = part.observe, []

    def failing(token_ids: object) -> None:
        calls.append(token_ids)
        if len(calls) > 2:
            raise RuntimeError("boom")
        original(token_ids)  # type: ignore[arg-type]

    part.observe = failing  # type: ignore[method-assign]
    with pytest.raises(DrafterError, match="boom"):
        generate_ids(target, [7, 3, 9], sampling, drafter)
    part.observe = original  # type: ignore[method-assign]
    assert generate_ids(target, [7, 3, 9], sampling, drafter, reference_ids=[plain]).generated_ids == plain


@given(memory_texts=st.lists(TOKENS, max_size=5), prompt=TOKENS, emitted=TOKENS)
@settings(deadline=None)
def test_a_copy_says_how_many_tokens_matched_before_it(
    memory_texts: list[list[int]], prompt: list[int], emitted: list[int]
) -> None:
    memory = DraftMemory()
    for text in memory_texts:
        memory.add(text)
    for name in ("suffix", "ngram"):
        drafter = drafter_of(name)
        drafter.begin(context(prompt, [], memory))
        for token_id in emitted:
            draft = drafter.propose(6)
            if draft.token_ids:
                assert draft.match_length is not None and draft.match_length >= 1
            drafter.observe([token_id])
