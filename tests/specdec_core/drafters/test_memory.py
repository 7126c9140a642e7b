from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdec_core.controller import FixedLength
from specdec_core.drafters import DraftContext, DraftMemory
from specdec_core.drafters.suffix import SuffixDrafter
from specdec_core.engine import Engine
from specdec_core.sampling import LogitsPipeline, SamplingParams
from specdec_core.types import GenerationRequest
from tests.specdec_core.tiny_models import make_tiny_engine

PIPELINE = LogitsPipeline(SamplingParams())
TEXTS = st.lists(st.lists(st.integers(0, 3), max_size=12), max_size=30)


def begin(memory: DraftMemory, prompt: list[int], *references: list[int]) -> SuffixDrafter:
    drafter = SuffixDrafter()
    drafter.begin(DraftContext(tuple(prompt), tuple(map(tuple, references)), PIPELINE, memory=memory))
    return drafter


@given(TEXTS, st.integers(4, 60))
def test_it_stays_within_its_bound_and_knows_the_newest_half(texts: list[list[int]], max_tokens: int) -> None:
    memory = DraftMemory(max_tokens)
    for text in texts:
        memory.add(text)
        memory.check_integrity()
        assert len(memory) <= max_tokens
    newest = next((text for text in reversed(texts) if text), None)
    if newest is not None:
        kept = newest[-(max_tokens // 2 - 1) :]
        cursor = memory.cursor()
        cursor.read(kept[:-1])
        found = cursor.continue_text(1, 0.0, longer_than=len(kept) - 2)  # an older text may promise more behind less
        assert len(kept) < 2 or (found.match_length == len(kept) - 1 and len(found.token_ids) == 1)


@given(TEXTS, st.lists(st.integers(0, 3), max_size=20), st.integers(8, 80))
def test_a_cursor_finds_the_longest_match_of_brute_force_whatever_is_added_meanwhile(
    texts: list[list[int]], request_ids: list[int], max_tokens: int
) -> None:
    memory = DraftMemory(max_tokens=10_000)
    half = len(texts) // 2
    for text in texts[:half]:
        memory.add(text)
    cursor, read = memory.cursor(), [*request_ids[: len(request_ids) // 2]]
    cursor.read(read)
    for text in texts[half:]:  # texts that split the states the cursor stands on
        memory.add(text)
    for token_id in [9, *request_ids]:  # 9 is nowhere: the match starts anew, over all texts
        cursor.read([token_id])
        read.append(token_id)
    for size in range(len(request_ids), 0, -1):
        tail = read[-size:]
        ways = {text[i + size] for text in texts for i in range(len(text) - size) if text[i : i + size] == tail}
        if ways:
            found = cursor.continue_text(1, 0.0)
            assert found.match_length == size
            assert found.token_ids[0] in ways
            return
    assert cursor.continue_text(1, 0.0).token_ids == ()


def test_the_oldest_half_is_forgotten_whole_and_a_text_used_again_stays() -> None:
    memory = DraftMemory(max_tokens=40)
    for start in (100, 200, 300, 200):  # 300 makes the first two old; 200 is young again
        memory.add(list(range(start, start + 9)))
    for start in (400, 500):
        memory.add(list(range(start, start + 9)))
    known = {start for start in (100, 200, 300, 400, 500) if begin(memory, [start, start + 1]).propose(2).token_ids}
    assert known == {200, 300, 400, 500}
    memory.clear()
    assert len(memory) == 0


def test_the_request_speaks_first_and_the_memory_where_it_knows_more() -> None:
    memory = DraftMemory()
    memory.add([5, 6, 7, 80, 81, 82])
    own = begin(memory, [1, 6, 7, 90, 2], [])
    own.observe([6, 7])  # two match in the prompt, two in the memory
    draft = own.propose(2)
    assert (draft.source, draft.token_ids, draft.match_length) == ("suffix", (90, 2), 2)
    own.observe([33, 5, 6, 7])  # now three match in the memory
    draft = own.propose(2)
    assert (draft.source, draft.token_ids, draft.match_length) == ("memory", (80, 81), 3)


def test_an_engine_remembers_finished_outputs_and_texts_it_is_given_and_writes_the_same() -> None:
    engine = Engine(make_tiny_engine().model, drafter="suffix", policy=FixedLength())  # not as the clock decides
    request = {"prompt": "abc", "sampling": {"max_tokens": 30}}
    first = engine.generate(GenerationRequest.model_validate(request))
    again = engine.generate(GenerationRequest.model_validate(request))
    assert again.token_ids == first.token_ids
    assert again.stats.num_decode_passes < first.stats.num_decode_passes
    held = len(engine.memory)
    stream = engine.stream(GenerationRequest.model_validate(request | {"prompt": "xyz"}))
    next(stream)
    stream.close()  # cancelled: not a finished output
    assert len(engine.memory) == held
    engine.memory.clear()
    engine.remember("abc" + first.text)
    assert len(engine.memory) > len(first.text)


def test_threads_may_add_while_a_request_reads() -> None:
    memory = DraftMemory(max_tokens=400)
    memory.add(range(50))
    drafter, errors = begin(memory, [1, 2, 3]), []

    def feed(offset: int) -> None:
        try:
            for number in range(200):
                memory.add([(number * step + offset) % 60 for step in range(20)])
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=feed, args=(offset,)) for offset in range(3)]
    for thread in threads:
        thread.start()
    for number in range(500):
        drafter.observe([number % 60])
        drafter.propose(8)
    for thread in threads:
        thread.join()
    assert errors == []
    memory.check_integrity()


def test_a_memory_needs_some_room() -> None:
    with pytest.raises(ValueError, match="at least 4"):
        DraftMemory(3)
