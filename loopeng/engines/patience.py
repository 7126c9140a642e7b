"""Asking an engine again where the infrastructure broke: for callers that need one reply and keep no attempts."""

from __future__ import annotations

import time
from collections.abc import Sequence

from loopeng.errors import EngineError
from loopeng.ports import TextEngine, TextReply, TextRequest

__all__ = ["generate_patiently"]


def generate_patiently(engine: TextEngine, request: TextRequest, delays_s: Sequence[float]) -> TextReply:
    """The reply, waiting ``delays_s`` before each further try. A final error is not tried again.

    Raises a final EngineError (a request that cannot be served, for one) at once, else that of the last try.
    """
    for delay_s in delays_s:
        try:
            return engine.generate(request)
        except EngineError as error:
            if error.is_final:
                raise
            time.sleep(delay_s)
    return engine.generate(request)
