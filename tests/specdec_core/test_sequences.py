from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from specdec_core.sequences import common_length, first_difference

IDS = st.lists(st.integers(0, 2), max_size=6)


@given(IDS, IDS)
def test_two_sequences_agree_up_to_the_common_length_and_no_further(one: list[int], other: list[int]) -> None:
    length = common_length(one, other)
    assert one[:length] == other[:length]
    assert one[: length + 1] != other[: length + 1] or length == len(one) == len(other)
    assert first_difference(one, other) == (None if one == other else length)


def test_a_text_that_ends_early_is_different() -> None:
    """Zipping both texts would pass it."""
    assert first_difference([1, 2, 3], [1, 2]) == 2
    assert first_difference([], [1]) == 0
    assert first_difference([1, 2], [1, 3, 4]) == 1


def test_kinds_of_sequences_mix() -> None:
    assert common_length((5, 6, 7), range(5, 9)) == 3
    assert first_difference((1, 2), [1, 2]) is None
