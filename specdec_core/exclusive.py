"""One user at a time: a model has one cache, so two generations at once would write into each other's sequence."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from specdec_core.errors import RequestError

__all__ = ["Exclusive"]


class Exclusive:
    """What one generation holds while it uses a model, whichever engine it belongs to.

    Other threads wait. A thread that holds it already is refused: it would wait for itself.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner: int | None = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold it for the block. Raises RequestError in a thread whose own stream is still open.

        >>> model_in_use = Exclusive()
        >>> with model_in_use.held():
        ...     with model_in_use.held():
        ...         pass
        Traceback (most recent call last):
            ...
        specdec_core.errors.RequestError: a stream over this model is still open in this thread: exhaust it or close ...
        """
        if self._owner == threading.get_ident():
            raise RequestError("a stream over this model is still open in this thread: exhaust it or close it first")
        with self._lock:
            try:
                self._owner = threading.get_ident()
                yield
            finally:
                self._owner = None
