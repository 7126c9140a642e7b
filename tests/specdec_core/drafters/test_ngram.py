from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdec_core.drafters.base import DraftContext
from specdec_core.drafters.ngram import NgramDrafter
from specdec_core.sampling import LogitsPipeline, SamplingParams

PIPELINE = LogitsPipeline(SamplingParams())


def begin(prompt: list[int], *references: list[int], min_n: int = 1, max_n: int = 3) -> NgramDrafter:
    drafter = NgramDrafter(min_n, max_n)
    drafter.begin(DraftContext(tuple(prompt), tuple(map(tuple, references)), PIPELINE))
    return drafter


def test_the_longest_ngram_wins_over_a_later_shorter_one() -> None:
    assert begin([1, 2, 7, 9, 2, 8, 1, 2]).propose(2).token_ids == (7, 9)


def test_of_equal_ngrams_the_latest_wins() -> None:
    assert begin([2, 7, 2, 8, 2]).propose(1).token_ids == (8,)


def test_a_copy_that_reaches_the_end_goes_on_with_itself() -> None:
    assert begin([4, 5, 6, 4, 5, 6]).propose(7).token_ids == (4, 5, 6, 4, 5, 6, 4)


def test_nothing_is_proposed_where_nothing_repeats() -> None:
    assert begin([1, 2, 3]).propose(5).token_ids == ()


def test_references_are_searched_and_no_ngram_reaches_across_texts() -> None:
    drafter = begin([1, 2, 3], [10, 11, 12])
    drafter.observe([10])
    assert drafter.propose(2).token_ids == (11, 12)
    across = begin([7, 8], [9], min_n=2, max_n=2)  # the text is 7 8 9 | 7 8
    across.observe([9, 7])
    assert across.propose(3).token_ids == ()


def test_sizes_are_checked() -> None:
    with pytest.raises(ValueError, match="min_n"):
        NgramDrafter(3, 2)


@given(st.lists(st.integers(0, 2), min_size=1, max_size=40), st.integers(1, 6))
def test_the_draft_follows_a_real_occurrence(prompt: list[int], limit: int) -> None:
    draft = begin(prompt).propose(limit).token_ids
    assert len(draft) in (0, limit)
    for size in (3, 2, 1):
        places = [i for i in range(len(prompt) - size) if prompt[i : i + size] == prompt[len(prompt) - size :]]
        if len(prompt) >= size and places:
            assert draft[0] == prompt[places[-1] + size]
            return
    assert draft == ()
