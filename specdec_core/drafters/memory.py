"""What an engine has written so far, as a place that drafts can come from."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from specdec_core.drafters.suffix_automaton import Continuation, MatchCursor, SuffixAutomaton

__all__ = ["DraftMemory", "MemoryCursor"]


class DraftMemory:
    """Texts of earlier requests, at most ``max_tokens`` tokens, the oldest forgotten first.

    A suffix automaton cannot forget a text, so there are two: texts go into the young one; when that holds half of
    ``max_tokens`` it becomes the old one, and the old one is dropped whole. Forgetting costs nothing, nothing is ever
    rebuilt, and each state is counted within one generation only, so counts stay true. A text that is used again goes
    into the young one again. Between a half and all of ``max_tokens`` newest tokens are known at any time.

    Threads may share it. It only ever drafts: no text depends on it.

    >>> memory = DraftMemory(max_tokens=100)
    >>> memory.add([5, 6, 7, 8])
    >>> cursor = memory.cursor()
    >>> cursor.read([1, 5, 6])
    >>> cursor.continue_text(max_tokens=4, min_probability=0.1).token_ids
    (7, 8)
    """

    def __init__(self, max_tokens: int = 65_536) -> None:
        if max_tokens < 4:
            raise ValueError(f"max_tokens must be at least 4, not {max_tokens!r}")
        self._max_generation = max_tokens // 2
        self._lock = threading.RLock()
        self._young, self._old = SuffixAutomaton(), SuffixAutomaton()

    def __len__(self) -> int:
        """Tokens held, one more per text."""
        return len(self._young) + len(self._old)

    def add(self, token_ids: Sequence[int]) -> None:
        """Remember a text; of a very long one its end. A text known to the young generation is not added again."""
        text = token_ids[-(self._max_generation - 1) :]
        with self._lock:
            if not text or self._young.count(text):
                return
            if len(self._young) + len(text) + 1 > self._max_generation:
                self._old, self._young = self._young, SuffixAutomaton()
            self._young.extend(text)
            self._young.add_border()

    def clear(self) -> None:
        """Forget everything. Cursors that are open keep what they read from."""
        with self._lock:
            self._young, self._old = SuffixAutomaton(), SuffixAutomaton()

    def cursor(self) -> MemoryCursor:
        """A reader for one request."""
        with self._lock:
            return MemoryCursor(self._lock, [self._young, self._old])

    def check_integrity(self) -> None:
        """Raise AssertionError where a bound is broken or a structure contradicts itself."""
        with self._lock:
            for generation in (self._young, self._old):
                assert len(generation) <= self._max_generation, f"{len(generation)} tokens in a generation"
                generation.check_integrity()


class MemoryCursor:
    """Follows one request's text through the memory as it was when the request began, and what is added since."""

    def __init__(self, lock: threading.RLock, generations: Sequence[SuffixAutomaton]) -> None:
        self._lock = lock
        self._cursors = [MatchCursor(generation) for generation in generations]

    def read(self, token_ids: Sequence[int]) -> None:
        """The next tokens of the request's text."""
        with self._lock:
            for cursor in self._cursors:
                cursor.read(token_ids)

    def continue_text(self, max_tokens: int, min_probability: float, *, longer_than: int = 0) -> Continuation:
        """The continuation with the most expected accepted tokens; equal: of the young generation.

        Empty where no match is longer than ``longer_than``: a request's own text speaks first.
        """
        best = Continuation()
        with self._lock:
            for cursor in self._cursors:
                if cursor.match_length > longer_than:
                    found = cursor.continue_text(max_tokens, min_probability)
                    if found.match_length > longer_than and found.expected_accepted > best.expected_accepted:
                        best = found
        return best
