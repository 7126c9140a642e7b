"""One line of ``loopeng doctor``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Finding"]


@dataclass(frozen=True)
class Finding:
    """``warn`` can be lived with, ``fail`` is in the way; ``remedy`` is what to do."""

    name: str
    status: Literal["ok", "warn", "fail"]
    text: str
    remedy: str | None = None
