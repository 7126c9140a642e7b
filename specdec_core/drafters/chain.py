"""Several drafters asked in order: the first that has something to say drafts."""

from __future__ import annotations

from collections.abc import Sequence

from specdec_core.drafters.base import DraftContext, Drafter
from specdec_core.types import Draft

__all__ = ["ChainDrafter"]


class ChainDrafter:
    """Every drafter observes every token, so none goes stale when another one drafted."""

    def __init__(self, drafters: Sequence[Drafter]) -> None:
        self._drafters = tuple(drafters)

    @property
    def name(self) -> str:
        """The names of the drafters, in order."""
        return "+".join(drafter.name for drafter in self._drafters)

    def begin(self, context: DraftContext) -> None:
        """Begin all."""
        for drafter in self._drafters:
            drafter.begin(context)

    def propose(self, max_tokens: int) -> Draft:
        """The first draft that is not empty."""
        for drafter in self._drafters:
            if (draft := drafter.propose(max_tokens)).token_ids:
                return draft
        return Draft()

    def observe(self, token_ids: Sequence[int]) -> None:
        """Tell all."""
        for drafter in self._drafters:
            drafter.observe(token_ids)

    def end(self) -> None:
        """End all."""
        for drafter in self._drafters:
            drafter.end()
