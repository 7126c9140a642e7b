"""The prompts' heads, kept for a few seconds: an application asks for them at every call."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from loopeng.errors import NotFoundError, StoreError
from loopeng.live.reach import Reach
from loopeng.prompts import text_hash
from loopeng.schema import PromptVersion, utc_now
from loopeng.store import LoopStore, head_moves

__all__ = ["Heads", "KnownHeads"]


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


class KnownHeads:
    """The versions to answer under, whether or not the database can be asked."""

    def __init__(self, ttl_s: float, reach: Reach, warn: Callable[[StoreError], None]) -> None:
        self._heads, self._reach, self._warn = Heads(ttl_s), reach, warn
        self._adopted: dict[str, str] = {}  # by prompt, the template that this process has brought

    def head(self, prompt_name: str, template: str | None) -> PromptVersion:
        """The head; a ``template`` becomes its template at this process's first call with it.

        Where the database is away it is the head that was known last, or the template without learned rules. Raises
        NotFoundError for an unknown prompt, StoreError where neither is known.
        """
        is_adopted = template is None or self._adopted.get(prompt_name) == template
        if is_adopted and (fresh := self._heads.fresh(prompt_name)) is not None:
            return fresh
        try:
            return self._heads.read(
                prompt_name, lambda: self._reach.ask(lambda store: self._ask(store, prompt_name, template))
            )
        except (StoreError, NotFoundError) as error:
            known = self._heads.last_known(prompt_name)
            if known is None and (template is None or isinstance(error, NotFoundError)):
                raise
            if isinstance(error, StoreError):
                self._warn(error)
            return known or _unadopted(prompt_name, template or "")

    def _ask(self, store: LoopStore, prompt_name: str, template: str | None) -> PromptVersion:
        try:
            head = store.head(prompt_name)
        except NotFoundError:
            if template is None:
                raise
            head = store.adopt_template(prompt_name, template, by="app")[0]
        if template is not None:
            if head.template != template and self._adopted.get(prompt_name) != template:
                head = store.adopt_template(prompt_name, template, by="app")[0]
            self._adopted[prompt_name] = template
        return head


def _unadopted(prompt_name: str, template: str) -> PromptVersion:
    """A template that the database has not seen: whatever it knows of the prompt is out of reach."""
    return PromptVersion(
        id="",
        prompt_name=prompt_name,
        number=0,
        template=template,
        text_hash=text_hash(template, ()),
        source="task file",
        created_by="app",
        created_at=utc_now(),
    )
