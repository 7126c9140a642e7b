"""A request that the engine would refuse again: no use in trying it twice."""

from __future__ import annotations

from loopeng.errors import EngineError

__all__ = ["RequestRefusedError"]


class RequestRefusedError(EngineError):
    """The request itself cannot be served, for example a prompt longer than the context."""
