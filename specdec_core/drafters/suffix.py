"""Drafts from text that exists already: reference texts, the prompt, the output so far, and earlier outputs."""

from __future__ import annotations

from collections.abc import Sequence

from specdec_core.drafters.base import NUM_CONTEXT_TOKENS, DraftContext
from specdec_core.drafters.memory import MemoryCursor
from specdec_core.drafters.suffix_automaton import SuffixAutomaton
from specdec_core.types import Draft

__all__ = ["SuffixDrafter"]


class SuffixDrafter:
    """Continues the longest suffix of the text that occurred before, by counts (see SuffixAutomaton).

    After an edit the longest match is short for a token or two and then long again: it finds its way back by itself.
    A draft ends where the share of its path among the counted continuations falls below ``min_probability``
    (SuffixDecoding's default of 0.1).

    Equal counts go to what was read last, so the texts of the request are read in the order of their weight: prompt,
    reference texts, own output. The engine's memory drafts (source ``memory``) only where it matches more tokens than
    they do and expects more of them to be accepted.
    """

    name = "suffix"

    def __init__(self, min_probability: float = 0.1) -> None:
        self._min_probability = min_probability
        self._automaton = SuffixAutomaton()
        self._memory: MemoryCursor | None = None

    def begin(self, context: DraftContext) -> None:
        """Read the prompt, the reference texts, the most likely last, and the end of the prompt once more."""
        self.end()
        for text in (context.prompt_ids, *context.continuations()):
            self._automaton.extend(text)
            self._automaton.add_border()
        if context.memory is not None and len(context.memory):
            self._memory = context.memory.cursor()
        self.observe(context.prompt_ids[-NUM_CONTEXT_TOKENS:])

    def propose(self, max_tokens: int) -> Draft:
        """The most frequent continuation of the longest match."""
        source, found = self.name, self._automaton.continue_text(max_tokens, self._min_probability)
        if self._memory is not None:
            remembered = self._memory.continue_text(max_tokens, self._min_probability, longer_than=found.match_length)
            if remembered.expected_accepted > found.expected_accepted:
                source, found = "memory", remembered
        return Draft(found.token_ids, source, match_length=found.match_length)

    def observe(self, token_ids: Sequence[int]) -> None:
        """Add emitted tokens to the text."""
        self._automaton.extend(token_ids)
        if self._memory is not None:
            self._memory.read(token_ids)

    def end(self) -> None:
        """Forget the request."""
        self._automaton = SuffixAutomaton()
        self._memory = None
