"""Whose turn it is with a loaded model: its cache holds one sequence, so one request at a time may use it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from specdec_core.errors import RequestError

__all__ = ["Turn"]


class Turn:
    """Belongs to the model, not to an engine: two engines over one model would overwrite each other's keys and values.

    >>> turn = Turn()
    >>> with turn.taken():
    ...     with turn.taken():
    ...         pass
    Traceback (most recent call last):
        ...
    specdec_core.errors.RequestError: a stream of this model is still open in this thread: exhaust it or close it first
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner: int | None = None

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Wait for other threads, then hold the model. Raises RequestError where this thread holds it already."""
        if self._owner == threading.get_ident():
            raise RequestError("a stream of this model is still open in this thread: exhaust it or close it first")
        with self._lock:
            try:
                self._owner = threading.get_ident()
                yield
            finally:
                self._owner = None
