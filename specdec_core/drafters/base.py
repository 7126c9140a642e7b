"""The life of a drafter: begin, propose, observe, end.

A drafter sees ids only. It is told everything that is emitted, whoever drafted it, so it never goes stale; what it
proposes can change nothing but speed. To add one: a file here and a line in the registry.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from specdec_core.drafters.memory import DraftMemory
from specdec_core.sampling import LogitsPipeline
from specdec_core.types import Draft

__all__ = ["NUM_CONTEXT_TOKENS", "DraftContext", "Drafter"]

NUM_CONTEXT_TOKENS = 4
"""So many tokens of the prompt's end stand before a text that may follow it, so that its first token can be drafted."""


@dataclass(frozen=True, slots=True)
class DraftContext:
    """What a drafter may know of a request. ``pipeline`` lets a drafter with a law draw with the target's noise.

    Under ``rejection`` a drafter that draws must use noise of its own, new in every round (``noise.draft_stream``), and
    give the law it drew from in ``Draft.probs``.
    """

    prompt_ids: tuple[int, ...]
    reference_ids: tuple[tuple[int, ...], ...]  # most likely first
    pipeline: LogitsPipeline
    eos_token_ids: tuple[int, ...] = ()
    verification: Literal["match", "rejection"] = "match"
    memory: DraftMemory | None = None  # earlier outputs of the engine

    def continuations(self) -> Iterator[tuple[int, ...]]:
        """The reference texts as they would stand here, the most likely last.

        Each follows the end of the prompt and ends the sequence, so that its first and its last token can be drafted.
        """
        for reference in reversed(self.reference_ids):
            yield (*self.prompt_ids[-NUM_CONTEXT_TOKENS:], *reference, *self.eos_token_ids[:1])


@runtime_checkable
class Drafter(Protocol):
    """Proposes what may come next. One request at a time."""

    @property
    def name(self) -> str: ...

    def begin(self, context: DraftContext) -> None:
        """A new request: forget the last one."""
        ...

    def propose(self, max_tokens: int) -> Draft:
        """At most ``max_tokens`` (at least 1) tokens to follow the last observed one; an empty draft is fine."""
        ...

    def observe(self, token_ids: Sequence[int]) -> None:
        """Tokens that were emitted, in order, each exactly once."""
        ...

    def end(self) -> None:
        """The request is over, also after an error or a cancelled stream."""
        ...
