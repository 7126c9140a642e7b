"""Prompt lookup: the tokens that followed the last n tokens when they stood earlier (Saxena 2023)."""

from __future__ import annotations

from collections.abc import Sequence

from specdec_core.drafters.base import DraftContext
from specdec_core.types import Draft

__all__ = ["NgramDrafter"]


class NgramDrafter:
    """Looks for the longest n-gram (``max_n`` down to ``min_n`` tokens) that ends the text in the text before it.

    The latest earlier place wins. Reference texts are searched like text before the prompt. An index from n-gram to
    latest end makes a look-up one dictionary access per n.
    """

    name = "ngram"

    def __init__(self, min_n: int = 1, max_n: int = 4) -> None:
        if not 1 <= min_n <= max_n:
            raise ValueError(f"need 1 <= min_n <= max_n, not {min_n!r} and {max_n!r}")
        self._sizes = range(max_n, min_n - 1, -1)
        self._history: list[int] = []
        self._ends: dict[tuple[int, ...], int] = {}  # n-gram -> index after its latest occurrence before the tail
        self._start = 0  # n-grams do not reach across this border between texts

    def begin(self, context: DraftContext) -> None:
        """Read the reference texts, the most likely last, then the prompt."""
        self.end()
        for text in (*context.continuations(), context.prompt_ids):
            self._start = len(self._history)
            self.observe(text)

    def propose(self, max_tokens: int) -> Draft:
        """Copy what followed the longest n-gram found; nothing where none is found."""
        for size in self._sizes:
            end = self._ends.get(tuple(self._history[-size:])) if self._tail_length() >= size else None
            if end is not None:
                return Draft(self._copy(end, max_tokens), self.name, match_length=size)
        return Draft(source=self.name)

    def observe(self, token_ids: Sequence[int]) -> None:
        """Add tokens; the n-grams that ended before each become known."""
        for token_id in token_ids:
            length = len(self._history)
            for size in self._sizes:
                if self._tail_length() >= size:
                    self._ends[tuple(self._history[-size:])] = length
            self._history.append(token_id)

    def end(self) -> None:
        """Forget the request."""
        self._history, self._ends, self._start = [], {}, 0

    def _copy(self, start: int, max_tokens: int) -> tuple[int, ...]:
        """Tokens from ``start`` on; a copy that reaches the end of the text goes on with itself, as in LZ77."""
        period = len(self._history) - start
        return tuple(self._history[start + offset % period] for offset in range(max_tokens))

    def _tail_length(self) -> int:
        return len(self._history) - self._start
