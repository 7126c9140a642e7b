"""An OpenAI-compatible endpoint around one engine: ``specdec serve``, and ``Server`` for programs. Extra ``serve``."""

from __future__ import annotations

try:
    from specdec_core.server.access import Grant, RequestDefaults
    from specdec_core.server.running import Server
except ModuleNotFoundError as error:
    if error.name not in ("prometheus_client", "starlette", "uvicorn"):
        raise
    raise ModuleNotFoundError(
        f"serving needs {error.name}: install the extra 'serve', as in pip install 'loopeng[serve]'", name=error.name
    ) from None

__all__ = ["Grant", "RequestDefaults", "Server"]
