"""How a failed sample is tried again: named policies, each of which turns what happened so far into the next move.

Only the evaluators' ``feedback`` reaches the model, never their ``reason``. A move must change something: after an
answer that was given before, and where a policy has nothing to tell, it is a resample at a higher temperature.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from loopeng.prompts import load_prompt
from loopeng.schema import Attempt, Message

__all__ = [
    "LEAST_RESAMPLE_TEMPERATURE",
    "RETRY_POLICIES",
    "Critique",
    "Escalate",
    "Feedback",
    "Move",
    "Resample",
    "RetryPolicy",
    "Situation",
    "first_move",
    "next_move",
]

LEAST_RESAMPLE_TEMPERATURE = 0.4
_HIGHEST_TEMPERATURE = 1.0  # escalation stops here; a task may ask for more


@dataclass(frozen=True)
class Situation:
    """A sample after at least one attempt that did not pass. ``temperature`` is the task's for the next attempt.

    ``watching`` are the evaluators whose word is not for the model.
    """

    instructions: str
    attempts: tuple[Attempt, ...]
    temperature: float
    watching: frozenset[str] = frozenset()

    @property
    def last(self) -> Attempt:
        """The attempt to improve on."""
        return self.attempts[-1]

    @property
    def problems(self) -> tuple[str, ...]:
        """What the evaluators let the model know of the last attempt."""
        heard = (result for result in self.last.failed_results if result.evaluator not in self.watching)
        feedback = [result.feedback.strip() for result in heard]
        return tuple(dict.fromkeys(text for text in feedback if text))


@dataclass(frozen=True)
class Move:
    """The next attempt: its conversation and temperature. ``feedback`` is what the model is told, for agents."""

    policy: str
    messages: tuple[Message, ...]
    temperature: float
    feedback: str | None = None


class RetryPolicy(Protocol):
    """The next move after a failure that was new; all but ``resample`` are asked only where there is feedback."""

    def move(self, situation: Situation) -> Move: ...


class Resample:
    """The same prompt with another seed, at the task's temperature; at 0.4 where that is 0, as no seed counts there."""

    def move(self, situation: Situation) -> Move:
        return _resample(situation, situation.temperature or LEAST_RESAMPLE_TEMPERATURE)


class Feedback:
    """The conversation goes on: the answer, and what was wrong with it."""

    def move(self, situation: Situation) -> Move:
        last = situation.last
        turn = load_prompt("feedback").render(problems=situation.problems)
        messages = (*last.messages, Message(role="assistant", content=last.text), _user(turn))
        return Move("feedback", messages, situation.temperature, _joined(situation.problems))


class Critique:
    """A fresh prompt with what was wrong, without the old answer, which then serves only as a source of drafts."""

    def move(self, situation: Situation) -> Move:
        text = load_prompt("critique").render(prompt=situation.instructions, problems=situation.problems)
        return Move("critique", (_user(text),), situation.temperature, _joined(situation.problems))


class Escalate:
    """Critique once, then resample at the next temperature, at least 0.4."""

    def move(self, situation: Situation) -> Move:
        if len(situation.attempts) == 1:
            return Critique().move(situation)
        return _resample(situation, max(situation.temperature, LEAST_RESAMPLE_TEMPERATURE))


RETRY_POLICIES: dict[str, RetryPolicy] = {
    "critique": Critique(),
    "escalate": Escalate(),
    "feedback": Feedback(),
    "resample": Resample(),
}


def first_move(instructions: str, temperature: float) -> Move:
    """Attempt 0: the instructions as one user message, which small models follow best."""
    return Move("first", (_user(instructions),), temperature)


def next_move(policy: RetryPolicy, situation: Situation) -> Move:
    """The policy's move; a hotter resample after a repetition, and where a policy has nothing to tell."""
    if situation.last.duplicate_of is not None:
        return _resample(situation, _escalated(situation, situation.last.temperature + LEAST_RESAMPLE_TEMPERATURE))
    if not situation.problems and not isinstance(policy, Resample):
        return _resample(situation, _escalated(situation, LEAST_RESAMPLE_TEMPERATURE))
    return policy.move(situation)


def _escalated(situation: Situation, wanted: float) -> float:
    return max(situation.temperature, min(wanted, _HIGHEST_TEMPERATURE))


def _resample(situation: Situation, temperature: float) -> Move:
    return Move("resample", (_user(situation.instructions),), temperature)


def _user(text: str) -> Message:
    return Message(role="user", content=text)


def _joined(problems: Sequence[str]) -> str:
    return "\n".join(problems)
