"""Several drafters as one. A controller takes them apart again and asks each by what it is worth."""

from __future__ import annotations

from collections.abc import Sequence

from specdec_core.drafters.base import DraftContext, Drafter
from specdec_core.types import Draft

__all__ = ["ChainDrafter", "chained"]


class ChainDrafter:
    """Asked in order: the first that has something to say drafts.

    Every drafter observes every token, so none goes stale when another one drafted.
    """

    def __init__(self, drafters: Sequence[Drafter]) -> None:
        self.drafters = tuple(drafters)

    @property
    def name(self) -> str:
        """The names of the drafters, in order."""
        return "+".join(drafter.name for drafter in self.drafters)

    def begin(self, context: DraftContext) -> None:
        """Begin all."""
        for drafter in self.drafters:
            drafter.begin(context)

    def propose(self, max_tokens: int) -> Draft:
        """The first draft that is not empty."""
        for drafter in self.drafters:
            if (draft := drafter.propose(max_tokens)).token_ids:
                return draft
        return Draft()

    def observe(self, token_ids: Sequence[int]) -> None:
        """Tell all."""
        for drafter in self.drafters:
            drafter.observe(token_ids)

    def end(self) -> None:
        """End all."""
        for drafter in self.drafters:
            drafter.end()


def chained(drafter: Drafter) -> tuple[Drafter, ...]:
    """The drafters of a chain, and of chains in it; of any other drafter itself."""
    if not isinstance(drafter, ChainDrafter):
        return (drafter,)
    return tuple(part for link in drafter.drafters for part in chained(link))
