"""No drafts: plain decoding is the same loop with this drafter."""

from __future__ import annotations

from collections.abc import Sequence

from specdec_core.drafters.base import DraftContext
from specdec_core.types import Draft

__all__ = ["NullDrafter"]


class NullDrafter:
    """Never proposes anything."""

    name = "none"

    def begin(self, context: DraftContext) -> None:
        """Nothing to prepare."""

    def propose(self, max_tokens: int) -> Draft:
        """Always the empty draft."""
        return Draft()

    def observe(self, token_ids: Sequence[int]) -> None:
        """Nothing to remember."""

    def end(self) -> None:
        """Nothing to release."""
