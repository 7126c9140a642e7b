"""How many tokens a loaded model holds: what was asked for, or the model's own length under a cap on memory."""

from __future__ import annotations

from collections.abc import Mapping

from specdec_core.errors import RequestError

__all__ = ["choose_context_length"]

_DEFAULT_CONTEXT_LENGTH = 4096


def choose_context_length(
    longest: int | None, asked: int | None, caps: Mapping[str, int] | None = None
) -> tuple[int, str]:
    """(tokens, reason).

    Args:
        longest: The most tokens the model can read; None where its config names no end.
        asked: What the caller wants; None takes the default.
        caps: Reason -> tokens; they bind the default, not what is asked for.

    Raises:
        RequestError: fewer than two tokens asked for, or more than ``longest``.

    >>> choose_context_length(1024, None)
    (1024, "context length 1024: the model's own (the model allows 1024)")
    """
    if asked is not None:
        if asked < 2 or (longest is not None and asked > longest):
            allowed = "at least 2" if longest is None else f"within 2..{longest}"
            raise RequestError(f"context_length must be {allowed} for this model, got {asked!r}")
        return asked, f"context length {asked}: as asked"
    limits = {} if longest is None else {"the model's own": longest}
    limits |= {"cap on the preallocated cache": _DEFAULT_CONTEXT_LENGTH, **(caps or {})}
    reason = min(limits, key=lambda name: limits[name])
    allows = "any length" if longest is None else longest
    return limits[reason], f"context length {limits[reason]}: {reason} (the model allows {allows})"
