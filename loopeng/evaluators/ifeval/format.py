"""Instructions on a format that can be detected: lists, highlights, sections, JSON, a title, a fixed answer."""

from __future__ import annotations

import json
import re

from loopeng.evaluators.ifeval.instruction import Count, Instruction, Word, as_pattern

__all__ = [
    "CONSTRAINED_RESPONSES",
    "FORMAT",
    "constrained_response",
    "json_format",
    "multiple_sections",
    "number_bullet_lists",
    "number_highlighted_sections",
    "title",
]

CONSTRAINED_RESPONSES = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
_BULLETS = (r"^[^\S\n]*+\*[^*].*$", r"^[^\S\n]*+-.*$")  # a line of "---" counts, one that begins with "**" does not
_FENCES = ("```json", "```Json", "```JSON", "```")


def number_bullet_lists(response: str, *, num_bullets: Count) -> bool:
    """Exactly so many lines begin with ``*`` (but not ``**``) or ``-``."""
    return sum(len(re.findall(each, response, re.MULTILINE)) for each in _BULLETS) == num_bullets


def number_highlighted_sections(response: str, *, num_highlights: Count) -> bool:
    """At least so many ``*highlighted*`` or ``**highlighted**`` parts stand within a line and are not blank."""
    single = [part[1:-1] for part in re.findall(r"\*[^\n*]*\*", response)]
    double = [part[2:-2] for part in re.findall(r"\*\*[^\n*]*\*\*", response)]
    return sum(bool(part.strip()) for part in single + double) >= num_highlights


def multiple_sections(response: str, *, section_spliter: Word, num_sections: Count) -> bool:
    """At least so many times the splitter stands before a number, with or without one space between."""
    return len(re.findall(rf"(?:{as_pattern(section_spliter)})\s?\d+", response)) >= num_sections


def json_format(response: str) -> bool:
    """The response is one JSON value, with or without a ``` fence around it."""
    text = response.strip()
    for fence in _FENCES:
        text = text.removeprefix(fence)
    try:
        json.loads(text.removesuffix("```").strip())
    except (ValueError, RecursionError):
        return False
    return True


def title(response: str) -> bool:
    """A ``<<title>>`` stands within a line and is not blank."""
    return any(part.lstrip("<").rstrip(">").strip() for part in re.findall(r"<<[^\n]+>>", response))


def constrained_response(response: str) -> bool:
    """One of the three answers, "My answer is yes.", "... no." or "... maybe.", stands somewhere."""
    return any(each in response for each in CONSTRAINED_RESPONSES)


FORMAT = (
    Instruction(
        "detectable_format:number_bullet_lists",
        number_bullet_lists,
        'Write exactly {num_bullets} bullet points. Begin each with "* " on a line of its own.',
        'Begin each bullet point with "* " on a line of its own, and write exactly as many as are asked for.',
    ),
    Instruction(
        "detectable_format:number_highlighted_sections",
        number_highlighted_sections,
        "The number of parts highlighted with asterisks, such as *this part*, must be at least {num_highlights}.",
        "Highlight parts with asterisks, such as *this part*, as many as are asked for.",
    ),
    Instruction(
        "detectable_format:multiple_sections",
        multiple_sections,
        'Write at least {num_sections} sections. Begin them with "{section_spliter} 1", "{section_spliter} 2" and '
        "so on.",
        "Begin each section with the given word and its number, and write as many sections as are asked for.",
    ),
    Instruction(
        "detectable_format:json_format",
        json_format,
        "The whole answer must be valid JSON, without any text around it.",
        "Where JSON is asked for, answer with valid JSON only.",
    ),
    Instruction(
        "detectable_format:title",
        title,
        "Add a title in double angular brackets, such as <<title>>.",
        "Where a title is asked for, put it in double angular brackets, such as <<title>>.",
    ),
    Instruction(
        "detectable_format:constrained_response",
        constrained_response,
        'Answer with one of these: "My answer is yes.", "My answer is no.", "My answer is maybe."',
        "Answer with exactly one of the options that are given, word for word.",
    ),
)
