"""Drafts from text that exists already: reference texts, the prompt, and the output so far."""

from __future__ import annotations

from collections.abc import Sequence

from specdec_core.drafters.base import DraftContext
from specdec_core.drafters.suffix_automaton import SuffixAutomaton
from specdec_core.types import Draft

__all__ = ["SuffixDrafter"]


class SuffixDrafter:
    """Continues the longest suffix of the text that occurred before, by counts (see SuffixAutomaton).

    After an edit the longest match is short for a token or two and then long again: it finds its way back by itself.
    A draft ends where the share of its path among the counted continuations falls below ``min_probability``
    (SuffixDecoding's default of 0.1).
    """

    name = "suffix"

    def __init__(self, min_probability: float = 0.1) -> None:
        self._min_probability = min_probability
        self._automaton = SuffixAutomaton()

    def begin(self, context: DraftContext) -> None:
        """Read the reference texts, the most likely last, then the prompt."""
        self.end()
        for text in context.continuations():
            self._automaton.extend(text)
            self._automaton.add_border()
        self._automaton.extend(context.prompt_ids)

    def propose(self, max_tokens: int) -> Draft:
        """The most frequent continuation of the longest match."""
        return Draft(tuple(self._automaton.continue_match(max_tokens, self._min_probability)), self.name)

    def observe(self, token_ids: Sequence[int]) -> None:
        """Add emitted tokens to the text."""
        self._automaton.extend(token_ids)

    def end(self) -> None:
        """Forget the request."""
        self._automaton = SuffixAutomaton()
