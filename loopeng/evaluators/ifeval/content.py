"""Instructions on content that can be detected: placeholders and a postscript."""

from __future__ import annotations

import re

from loopeng.evaluators.ifeval.instruction import Count, Instruction, Word, as_pattern

__all__ = ["CONTENT", "number_placeholders", "postscript"]

_POSTSCRIPTS = {"P.S.": r"p\.\s?s\.", "P.P.S": r"p\.\s?p\.\s?s"}  # a space may stand between the letters


def number_placeholders(response: str, *, num_placeholders: Count) -> bool:
    """At least so many ``[placeholders]`` stand in square brackets, each within one line; empty brackets count."""
    return len(re.findall(r"\[[^\]\n]*\]", response)) >= num_placeholders


def postscript(response: str, *, postscript_marker: Word) -> bool:
    """The marker, in any case, stands somewhere; it need not begin a line."""
    pattern = _POSTSCRIPTS.get(postscript_marker) or as_pattern(postscript_marker.lower())
    return re.search(pattern, response.lower()) is not None


CONTENT = (
    Instruction(
        "detectable_content:number_placeholders",
        number_placeholders,
        "The number of placeholders in square brackets, such as [address], must be at least {num_placeholders}.",
        "Write placeholders in square brackets, such as [address], as many as are asked for.",
    ),
    Instruction(
        "detectable_content:postscript",
        postscript,
        "Add a postscript at the end that starts with {postscript_marker}",
        "Add a postscript at the end that starts with the given marker.",
    ),
)
