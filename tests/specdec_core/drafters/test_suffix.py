from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from specdec_core.drafters.base import DraftContext
from specdec_core.drafters.suffix import SuffixDrafter
from specdec_core.drafters.suffix_automaton import SuffixAutomaton
from specdec_core.sampling import LogitsPipeline, SamplingParams

TEXTS = st.lists(st.lists(st.integers(0, 3), max_size=25), min_size=1, max_size=4)


def build(texts: list[list[int]], **options: int) -> SuffixAutomaton:
    automaton = SuffixAutomaton(**options)
    for number, text in enumerate(texts):
        if number:
            automaton.add_border()
        automaton.extend(text)
    return automaton


def count_by_hand(texts: list[list[int]], needle: list[int]) -> int:
    return sum(text[i : i + len(needle)] == needle for text in texts for i in range(len(text) - len(needle) + 1))


def longest_match_by_hand(texts: list[list[int]]) -> int:
    last, earlier = texts[-1], texts[:-1]
    for size in range(len(last), 0, -1):
        tail = last[-size:]
        if count_by_hand(earlier, tail) or count_by_hand([last], tail) > 1:
            return size
    return 0


@given(TEXTS)
def test_counts_and_matches_are_those_of_brute_force(texts: list[list[int]]) -> None:
    automaton = build(texts, max_count_steps=1000)
    automaton.check_integrity()
    assert automaton.match_length == longest_match_by_hand(texts)
    for text in texts:
        for start in range(len(text)):
            for end in range(start + 1, min(start + 5, len(text)) + 1):
                assert automaton.count(text[start:end]) == count_by_hand(texts, text[start:end])
    assert automaton.count([9]) == 0


@given(TEXTS, st.integers(1, 8))
def test_the_first_drafted_token_is_a_most_frequent_one_after_the_longest_match(
    texts: list[list[int]], limit: int
) -> None:
    automaton = build(texts, max_count_steps=1000)
    draft = list(automaton.continue_text(limit, min_probability=0.0).token_ids)
    assert len(draft) <= limit
    size = longest_match_by_hand(texts)
    while size and not any(count_by_hand(texts, [*texts[-1][-size:], t]) for t in range(4)):
        size -= 1
    if not size:
        assert draft == []
        return
    counts = [count_by_hand(texts, [*texts[-1][len(texts[-1]) - size :], token]) for token in range(4)]
    assert counts[draft[0]] == max(counts)


def test_periodic_text_is_continued_for_ever_and_counting_stays_bounded() -> None:
    automaton = build([[1, 2, 3] * 2000])
    assert list(automaton.continue_text(9, 0.1).token_ids) == [1, 2, 3] * 3


def begin(prompt: list[int], *references: list[int], eos: tuple[int, ...] = ()) -> SuffixDrafter:
    drafter = SuffixDrafter()
    pipeline = LogitsPipeline(SamplingParams())
    drafter.begin(DraftContext(tuple(prompt), tuple(map(tuple, references)), pipeline, eos))
    return drafter


def test_an_earlier_attempt_is_drafted_from_its_first_token_to_its_end() -> None:
    drafter = begin([1, 2, 3], [10, 11, 12], eos=(99,))
    assert drafter.propose(15).token_ids == (10, 11, 12, 99)


def test_the_first_reference_is_the_most_likely_one() -> None:
    assert begin([1, 2, 3], [10, 11], [20, 21]).propose(2).token_ids == (10, 11)


def test_a_reference_is_preferred_to_the_prompt_at_the_same_match() -> None:
    drafter = begin([10, 11, 50, 51, 2, 3], [9, 10, 11, 60, 61])
    drafter.observe([10, 11])
    assert drafter.propose(2).token_ids == (60, 61)
    longer = begin([9, 10, 11, 50, 51, 2, 3], [10, 11, 60, 61])
    longer.observe([9, 10, 11])  # three tokens match in the prompt
    assert longer.propose(2).token_ids == (50, 51)


def test_own_output_is_preferred_to_what_was_read_before() -> None:
    drafter = begin([1, 2, 3], [10, 11, 60])
    drafter.observe([10, 11, 70, 5, 10, 11])
    assert drafter.propose(1).token_ids == (70,)


def test_a_draft_says_how_much_of_it_to_expect() -> None:
    automaton = build([[1, 2, 7, 8], [1, 2, 7, 9], [2]])  # after 2 comes 7, then 8 or 9
    found = automaton.continue_text(2, min_probability=0.0)
    assert (found.token_ids, found.match_length) == ((7, 9), 1)
    assert found.expected_accepted == 1 / 2 + 1 / 2 * (1 / 2 * 2 / 3)
    assert build([[1, 2]]).continue_text(3, min_probability=0.0).expected_accepted == 0


def test_a_match_that_went_on_in_very_many_ways_is_passed_over() -> None:
    ways = [token for start in range(10, 110) for token in (5, start)]
    assert build([[*ways, 5]]).continue_text(4, min_probability=0.0).token_ids == ()


def test_after_an_edit_it_finds_its_way_back() -> None:
    reference = list(range(10, 40))
    drafter = begin([1, 2, 3], reference)
    drafter.observe([10, 11, 12, 77, 78])  # two tokens that stand nowhere
    assert drafter.propose(5).token_ids == ()
    drafter.observe([15])  # back in the reference
    assert drafter.propose(5).token_ids == (16, 17, 18, 19, 20)


def test_requests_leave_no_trace() -> None:
    drafter = begin([1, 2, 3], [10, 11, 12])
    drafter.end()
    drafter.begin(DraftContext((1, 2, 3), (), LogitsPipeline(SamplingParams())))
    assert drafter.propose(5).token_ids == ()


def test_an_unlikely_path_ends_the_draft() -> None:
    texts = [[5, token] for token in range(10, 22)]  # after 5, twelve continuations, each once
    automaton = build([*texts, [5]])
    assert automaton.continue_text(4, min_probability=0.1).token_ids == ()
    assert automaton.continue_text(4, min_probability=0.0).token_ids[0] == 21  # equal counts: the latest
