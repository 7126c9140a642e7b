"""Any callable as an engine: ``(messages, params) -> text``, sync or async."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from loopeng.engines.awaiting import finish
from loopeng.errors import EngineError, UsageError
from loopeng.ports import EngineInfo, GenerateFunction, TextEngine, TextReply, TextRequest

__all__ = ["CallableEngine", "as_engine"]

_PARAMS = {"max_tokens", "temperature", "top_k", "top_p", "repetition_penalty", "stop", "seed"}


class CallableEngine:
    """Counts as non-deterministic, and no other process can make it again."""

    def __init__(self, function: GenerateFunction) -> None:
        self.function = function

    def generate(self, request: TextRequest) -> TextReply:
        """Raises EngineError with the text of whatever the function raises, and where it gives no text."""
        messages = [message.model_dump() for message in request.messages]
        started = time.perf_counter()
        try:
            text: Any = finish(self.function(messages, request.model_dump(include=_PARAMS)))
        except Exception as error:
            raise EngineError(f"{type(error).__name__}: {error}") from error
        if not isinstance(text, str):
            raise EngineError(f"the engine {_name(self.function)} gave {type(text).__name__}, not a string")
        return TextReply(text=text, latency_s=time.perf_counter() - started)

    def describe(self) -> EngineInfo:
        return EngineInfo(kind="callable", model=_name(self.function))


def as_engine(value: TextEngine | GenerateFunction) -> TextEngine:
    """A TextEngine as it is, a callable wrapped. Raises UsageError for anything else."""
    if isinstance(value, TextEngine):
        return value
    if callable(value):
        return CallableEngine(value)
    raise UsageError(f"{value!r} is no engine: give a TextEngine, or a callable (messages, params) -> text")


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", type(function).__qualname__)
