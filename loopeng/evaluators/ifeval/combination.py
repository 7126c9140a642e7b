"""Instructions that combine two texts in one response."""

from __future__ import annotations

from loopeng.evaluators.ifeval.instruction import Instruction, Word

__all__ = ["COMBINATION", "repeat_prompt", "two_responses"]


def two_responses(response: str) -> bool:
    """``******`` parts the response into two that differ; only the first and last part may be empty."""
    parts = [part.strip() for part in response.split("******")]
    given = [part for part in parts if part]
    return all(parts[1:-1]) and len(given) == 2 and given[0] != given[1]


def repeat_prompt(response: str, *, prompt_to_repeat: Word) -> bool:
    """The response begins with the prompt, in any case."""
    return response.strip().lower().startswith(prompt_to_repeat.lower())


COMBINATION = (
    Instruction(
        "combination:two_responses",
        two_responses,
        "Give two different answers with ****** between them.",
        "Where two answers are asked for, put ****** between them.",
    ),
    Instruction(
        "combination:repeat_prompt",
        repeat_prompt,
        "Begin with the request, word for word and without any words before it, then give the answer. The request: "
        "{prompt_to_repeat}",
        "Where the request is to be repeated, begin with it word for word, then answer.",
    ),
)
