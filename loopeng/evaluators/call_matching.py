"""Which of the tool calls an agent made are those expected: by name and arguments, in order or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["ArgsMode", "Matches", "ToolCall", "args_match", "count_in_order", "match_calls", "same_json"]

ArgsMode = Literal["exact", "ignore", "subset", "superset"]
"""Arguments are equal; open; all among the expected ones; or all expected ones are among them."""


@dataclass(frozen=True)
class ToolCall:
    """One call. Arguments that cannot be read are the text they came as; None leaves those of an expected call open."""

    name: str
    args: Any = None


Matches = Callable[[ToolCall, ToolCall], bool]
"""Whether a call that was made is the one expected."""


def args_match(made: ToolCall, expected: ToolCall, mode: ArgsMode) -> bool:
    """Compare the arguments of two calls of one tool.

    >>> made, expected = ToolCall("find", {"what": "mug", "limit": 5}), ToolCall("find", {"what": "mug"})
    >>> [args_match(made, expected, mode) for mode in ("exact", "ignore", "subset", "superset")]
    [False, True, False, True]
    """
    if mode == "ignore" or expected.args is None:
        return True
    if mode == "exact" or not isinstance(made.args, Mapping) or not isinstance(expected.args, Mapping):
        return same_json(made.args, expected.args)
    few, many = (made.args, expected.args) if mode == "subset" else (expected.args, made.args)
    return all(key in many and same_json(value, many[key]) for key, value in few.items())


def same_json(one: Any, other: Any) -> bool:
    """Equal as JSON: 1 is 1.0, but neither is true."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same_json(value, other[key]) for key, value in one.items())
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same_json, one, other))
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def match_calls(made: Sequence[ToolCall], expected: Sequence[ToolCall], matches: Matches) -> dict[int, int]:
    """The most pairs there can be, in any order: index of an expected call -> index of the call made.

    An expected call that has no partner takes that of another one where that one finds a new partner.
    """
    partner: dict[int, int] = {}  # of calls made: the expected one

    def find(index: int, tried: set[int]) -> bool:
        for place, call in enumerate(made):
            if place not in tried and matches(call, expected[index]):
                tried.add(place)
                if place not in partner or find(partner[place], tried):
                    partner[place] = index
                    return True
        return False

    for index in range(len(expected)):
        find(index, set())
    return {index: place for place, index in partner.items()}


def count_in_order(made: Sequence[ToolCall], expected: Sequence[ToolCall], matches: Matches) -> int:
    """The most calls that match in the expected order, others between them or not (longest common subsequence)."""
    lengths = [0] * (len(expected) + 1)
    for call in made:
        before = lengths[:]
        for index, wanted in enumerate(expected, 1):
            lengths[index] = before[index - 1] + 1 if matches(call, wanted) else max(before[index], lengths[index - 1])
    return lengths[-1]
