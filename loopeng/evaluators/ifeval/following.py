"""Whether a response follows an instruction, strictly and loosely."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loopeng.evaluators.ifeval.instruction import Instruction

__all__ = ["follows", "follows_loosely", "variants"]


def follows(instruction: Instruction, response: str, arguments: Mapping[str, Any]) -> bool:
    """Strict: the check passes on the response as it is. A blank response follows nothing."""
    return bool(response.strip()) and instruction.check(response, **arguments)


def follows_loosely(instruction: Instruction, response: str, arguments: Mapping[str, Any]) -> bool:
    """Loose: the check passes on one of the variants, so polite first and last lines and bold type are forgiven."""
    return any(follows(instruction, variant, arguments) for variant in variants(response))


def variants(response: str) -> tuple[str, ...]:
    r"""The response whole, without its first line, without its last, without both; then all four without asterisks.

    >>> variants("Sure!\n*a*\nBye")
    ('Sure!\n*a*\nBye', '*a*\nBye', 'Sure!\n*a*', '*a*', 'Sure!\na\nBye', 'a\nBye', 'Sure!\na', 'a')
    """
    lines = response.split("\n")
    parts = (response, *("\n".join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1])))
    return parts + tuple(part.replace("*", "") for part in parts)
