"""An engine that is made at its first use: commands that generate nothing load no model."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from loopeng.ports import Endpoint, EndpointEngine, EngineInfo, TextEngine, TextReply, TextRequest

__all__ = ["LazyEngine"]


class LazyEngine:
    """Stands for the engine that ``build`` makes. Whatever ``build`` raises comes out of the first use."""

    def __init__(self, build: Callable[[], TextEngine]) -> None:
        self._build = build
        self._engine: TextEngine | None = None
        self._lock = threading.Lock()

    def generate(self, request: TextRequest) -> TextReply:
        return self._made().generate(request)

    def describe(self) -> EngineInfo:
        return self._made().describe()

    def endpoint(self, request: TextRequest) -> AbstractContextManager[Endpoint | None]:
        engine = self._made()
        return engine.endpoint(request) if isinstance(engine, EndpointEngine) else nullcontext()

    def _made(self) -> TextEngine:
        with self._lock:
            if self._engine is None:
                self._engine = self._build()
            return self._engine
