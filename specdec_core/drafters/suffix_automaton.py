"""A suffix automaton over token ids, built online, with occurrence counts.

Blumer et al. 1985; for drafting see SAM-Decoding (Hu et al. 2024, arXiv 2411.10666) and, for counts, SuffixDecoding
(Oliaro et al. 2024, arXiv 2411.04975). A state stands for all substrings that end at the same places; its link leads to
the longest suffix that also ends elsewhere. So the link of the newest state *is* the longest suffix of the text that
occurred before: nothing has to be tracked or re-synchronised when the text leaves what it was copying.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["SuffixAutomaton"]

_ROOT = 0


class SuffixAutomaton:
    """Texts in, likely continuations out. ``extend`` is amortised O(1) but for the counts.

    Counting walks the links of each new state, at most ``max_count_steps`` of them: in periodic text ("aaaa") the chain
    is as long as the text, and the counts of its shortest strings, which no choice depends on, are left behind.
    """

    def __init__(self, max_count_steps: int = 64) -> None:
        self._max_count_steps = max_count_steps
        self._next: list[dict[int, int]] = [{}]
        self._link: list[int] = [-1]
        self._length: list[int] = [0]
        self._count: list[int] = [0]
        self._latest: list[int] = [-1]  # index of the last token of the latest occurrence
        self._last = _ROOT
        self._num_tokens = 0
        self._num_borders = 0

    def __len__(self) -> int:
        return self._num_tokens

    def add_border(self) -> None:
        """End a text: no match reaches across."""
        self._num_borders += 1
        self.extend([-self._num_borders])

    def extend(self, token_ids: Sequence[int]) -> None:
        """Append tokens to the text."""
        for token_id in token_ids:
            self._append(token_id)

    @property
    def match_length(self) -> int:
        """Length of the longest suffix of the text that occurred in it before."""
        return self._length[max(self._link[self._last], _ROOT)]

    def continue_match(self, max_tokens: int, min_probability: float) -> list[int]:
        """The most frequent continuation of the longest match, token by token; equal counts: the latest.

        Where a match ends with the text, its longest shorter suffix goes on. Ends when the product of the tokens'
        shares falls below ``min_probability``.
        """
        tokens: list[int] = []
        state, probability = self._link[self._last], 1.0
        while len(tokens) < max_tokens:
            while state > _ROOT and not (options := self._options(state)):
                state = self._link[state]
            if state <= _ROOT:
                break
            count, _, token_id = max(options)
            probability *= count / sum(option[0] for option in options)
            if probability < min_probability:
                break
            tokens.append(token_id)
            state = self._next[state][token_id]
        return tokens

    def count(self, token_ids: Sequence[int]) -> int:
        """How often the tokens occur in the text (a lower bound where counting was cut short)."""
        state = _ROOT
        for token_id in token_ids:
            if token_id not in self._next[state]:
                return 0
            state = self._next[state][token_id]
        return self._count[state] if state else self._num_tokens

    def check_integrity(self) -> None:
        """Raise AssertionError where the structure contradicts itself."""
        for state in range(1, len(self._next)):
            link = self._link[state]
            assert link >= 0 and self._length[link] < self._length[state], f"state {state}: link is not shorter"
            assert self._count[state] >= 1, f"state {state}: never counted"
            assert all(self._length[t] > self._length[state] for t in self._next[state].values()), (
                f"state {state}: loop"
            )
            assert set(self._next[state]) <= set(self._next[link]), f"state {state}: link lacks a transition"

    def _options(self, state: int) -> list[tuple[int, int, int]]:
        """(count, latest occurrence, token) of every way on, borders left out."""
        ways = self._next[state].items()
        return [(self._count[target], self._latest[target], token) for token, target in ways if token >= 0]

    def _append(self, token_id: int) -> None:
        new = self._add_state(self._length[self._last] + 1)
        state = self._last
        while state >= 0 and token_id not in self._next[state]:
            self._next[state][token_id] = new
            state = self._link[state]
        self._link[new] = _ROOT if state < 0 else self._split(state, token_id)
        self._last = new
        self._count_occurrence(new)
        self._num_tokens += 1

    def _split(self, state: int, token_id: int) -> int:
        """The state for exactly the longest string of ``state`` plus the token; cloned where it stood for more."""
        target = self._next[state][token_id]
        if self._length[target] == self._length[state] + 1:
            return target
        clone = self._add_state(self._length[state] + 1)
        self._next[clone] = dict(self._next[target])
        self._link[clone], self._count[clone] = self._link[target], self._count[target]
        self._latest[clone] = self._latest[target]
        self._link[target] = clone
        while state >= 0 and self._next[state].get(token_id) == target:
            self._next[state][token_id] = clone
            state = self._link[state]
        return clone

    def _add_state(self, length: int) -> int:
        self._next.append({})
        self._link.append(_ROOT)
        self._length.append(length)
        self._count.append(0)
        self._latest.append(-1)
        return len(self._next) - 1

    def _count_occurrence(self, state: int) -> None:
        for _ in range(self._max_count_steps):
            if state <= _ROOT:
                return
            self._count[state] += 1
            self._latest[state] = self._num_tokens
            state = self._link[state]
