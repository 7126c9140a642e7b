"""Reflectors: what turns failure patterns into changes of the rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pydantic import Field

from loopeng.ports.engines import TextEngine, TextRequest
from loopeng.schema import Attempt, FailurePattern, Noun, PromptVersion, RuleOperation, Sample
from loopeng.schema.task import ImproveSpec

__all__ = ["NoChange", "ProposedChange", "ReflectionContext", "Reflector"]


@dataclass(frozen=True)
class ReflectionContext:
    """What a reflector may see: patterns, redacted failing examples of the reflect split, the head, refusals.

    ``improve.candidates`` changes are asked for. ``request`` holds the settings of a call of ``engine``: fill in the
    messages; its temperature and seed are those of the first change. What the engine answered is kept, so a reflector
    that is asked once more after a crash hears the same.
    """

    prompt: PromptVersion
    patterns: tuple[FailurePattern, ...]
    examples: tuple[tuple[Sample, Attempt], ...] = ()
    rejected: tuple[tuple[tuple[RuleOperation, ...], str], ...] = ()  # earlier operations with the person's reason
    refused: tuple[tuple[tuple[RuleOperation, ...], str], ...] = ()  # earlier suggestions with the guards' reasons
    engine: TextEngine | None = None
    request: TextRequest = field(default_factory=lambda: TextRequest(messages=()))
    improve: ImproveSpec = field(default_factory=ImproveSpec)


class ProposedChange(Noun):
    """A reflector's answer: operations on the rules, and why."""

    operations: tuple[RuleOperation, ...]
    rationale: str
    pattern_ids: tuple[str, ...] = ()
    reply: str | None = Field(None, description="Of a model, as it came.")


class NoChange(Noun):
    """A reflector's answer that brings no change, kept with its reason: a reply that could not be read, or no room."""

    reason: str
    reply: str | None = Field(None, description="The unreadable reply; None where no model was asked.")


class Reflector(Protocol):
    """Turns failure patterns into changes of the rules; an empty answer means there is nothing worth proposing.

    Of several changes the first ``improve.candidates`` are looked at, and the best of them is tested.
    """

    def propose(self, context: ReflectionContext) -> Sequence[ProposedChange | NoChange]: ...
