"""The prompts' heads, kept for a few seconds: an application asks for them at every call."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from loopeng.schema import PromptVersion
from loopeng.store import head_moves

__all__ = ["Heads"]


@dataclass(frozen=True)
class _Kept:
    version: PromptVersion
    moves: int  # of heads by this process, when it was asked for
    until: float


class Heads:
    """Usable from any thread. A head that this process moves is forgotten at once, that of another in ``ttl_s``."""

    def __init__(self, ttl_s: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._ttl_s, self._clock = ttl_s, clock
        self._kept: dict[str, _Kept] = {}

    def fresh(self, prompt_name: str) -> PromptVersion | None:
        """The head, where it need not be read again."""
        kept = self._kept.get(prompt_name)
        good = kept is not None and kept.moves == head_moves() and self._clock() < kept.until
        return kept.version if kept is not None and good else None

    def last_known(self, prompt_name: str) -> PromptVersion | None:
        """The head as it was when it was last read, however long ago."""
        kept = self._kept.get(prompt_name)
        return kept.version if kept is not None else None

    def read(self, prompt_name: str, ask: Callable[[], PromptVersion]) -> PromptVersion:
        """Ask for the head and keep it. Raises what ``ask`` raises."""
        moves = head_moves()  # before: a head that is moved while we ask is asked for again
        version = ask()
        self._kept[prompt_name] = _Kept(version, moves, self._clock() + self._ttl_s)
        return version
