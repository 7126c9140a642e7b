"""Where two sequences of token ids part."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["common_length", "first_difference"]


def common_length(one: Sequence[int], other: Sequence[int]) -> int:
    """How many ids two sequences have in common from the first on; fast where one begins the other.

    >>> common_length([1, 2, 3], [1, 2, 4, 5])
    2
    """
    shorter = min(len(one), len(other))
    if list(one[:shorter]) == list(other[:shorter]):
        return shorter
    return next(index for index in range(shorter) if one[index] != other[index])


def first_difference(one: Sequence[int], other: Sequence[int]) -> int | None:
    """The first index at which two sequences differ, or None. A shorter one that ends early is different.

    >>> first_difference([1, 2, 3], [1, 5, 3]), first_difference([1, 2], [1, 2, 3]), first_difference([1], [1])
    (1, 2, None)
    """
    index = common_length(one, other)
    return None if index == len(one) == len(other) else index
