"""An OpenAI-compatible endpoint around one engine: ``specdec serve``, and ``Server`` for programs. Extra ``serve``."""

from __future__ import annotations

from importlib.util import find_spec

for _library in ("prometheus_client", "starlette", "uvicorn"):
    if find_spec(_library) is None:
        raise ModuleNotFoundError(
            f"serving needs {_library}: install the extra 'serve', as in pip install 'loopeng[serve]'", name=_library
        )

from specdec_core.server.access import Grant, RequestDefaults  # noqa: E402
from specdec_core.server.running import Server  # noqa: E402

__all__ = ["Grant", "RequestDefaults", "Server"]
