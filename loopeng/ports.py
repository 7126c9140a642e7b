"""The seams: what a user may replace. Each is a Protocol of one or two methods, and an implementation ships."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, runtime_checkable

from pydantic import Field

from loopeng.schema import (
    AnchorReport,
    Attempt,
    EvalResult,
    FailurePattern,
    Message,
    Noun,
    PromptVersion,
    RuleOperation,
    Sample,
    Usage,
)
from loopeng.schema.task import EngineSpec, ImproveSpec

__all__ = [
    "Agent",
    "AgentContext",
    "AgentResult",
    "AnchoredEvaluator",
    "BoundEngine",
    "EngineInfo",
    "EvaluationContext",
    "Evaluator",
    "GenerateFunction",
    "NoChange",
    "ProposedChange",
    "ReflectionContext",
    "Reflector",
    "ReplyCache",
    "TextEngine",
    "TextReply",
    "TextRequest",
]


class TextRequest(Noun):
    """One generation. The text never depends on ``reference_texts``; drafts may follow them."""

    messages: tuple[Message, ...]
    max_tokens: int = 256
    temperature: float = 0.0
    top_k: int | None = None
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    stop: tuple[str, ...] = ()
    seed: int = 0
    reference_texts: tuple[str, ...] = ()
    response_schema: dict[str, Any] | None = Field(
        None, description="JSON Schema of the text. Held where EngineInfo.structured_output; else a wish, unsaid."
    )

    @classmethod
    def of(
        cls,
        spec: EngineSpec,
        *,
        messages: tuple[Message, ...],
        temperature: float,
        seed: int,
        reference_texts: tuple[str, ...] = (),
    ) -> Self:
        """A request with the settings of an engine section of a task file."""
        return cls(
            messages=messages,
            max_tokens=spec.max_tokens,
            temperature=temperature,
            top_k=spec.top_k,
            top_p=spec.top_p,
            repetition_penalty=spec.repetition_penalty,
            stop=spec.stop,
            seed=seed,
            reference_texts=reference_texts,
        )


class TextReply(Noun):
    """What an engine answers."""

    text: str
    token_ids: tuple[int, ...] | None = None
    finish_reason: str | None = None
    usage: Usage = Usage()
    latency_s: float = 0.0
    fingerprint: str | None = None


class EngineInfo(Noun):
    """What an engine says of itself. ``deterministic``: same request and seed, same text.

    ``structured_output``: texts follow ``response_schema``, but for those cut at ``max_tokens``; a schema that cannot
    be held is refused (RequestRefusedError), never ignored.
    """

    kind: str
    model: str | None = None
    deterministic: bool = False
    structured_output: bool = False
    fingerprint: str | None = None
    reference: str | None = Field(None, description="How another process makes it; None for a live object.")
    details: dict[str, Any] = {}


@runtime_checkable
class TextEngine(Protocol):
    """Turns a conversation into text. Raises EngineError on infrastructure failures, never on bad answers."""

    def generate(self, request: TextRequest) -> TextReply: ...

    def describe(self) -> EngineInfo: ...


GenerateFunction = Callable[[Sequence[Mapping[str, str]], Mapping[str, Any]], str | Awaitable[str]]
"""A bare callable as engine: (messages, params) -> text, sync or async. Counts as non-deterministic."""


class BoundEngine(Protocol):
    """An engine as an agent sees it: sampling, seed and reference texts are set already; usage is counted."""

    def generate(self, messages: Sequence[Message] | str, **overrides: Any) -> TextReply: ...


@dataclass(frozen=True)
class AgentContext:
    """Everything one attempt may look at. ``messages`` is the conversation the retry policy prepared."""

    instructions: str  # the head prompt, rendered with input
    input: Mapping[str, Any]
    messages: tuple[Message, ...]
    engine: BoundEngine
    feedback: str | None = None  # what the evaluators said of the last attempt, redacted
    earlier_outputs: tuple[str, ...] = ()
    attempt_index: int = 0
    seed: int = 0
    temperature: float = 0.0


@dataclass(frozen=True)
class AgentResult:
    """What an agent returns; a bare string stands for ``AgentResult(text=...)``."""

    text: str
    trajectory: Any = None
    usage: Usage = field(default_factory=Usage)
    token_ids: tuple[int, ...] | None = None
    finish_reason: str | None = None
    fingerprint: str | None = None


class Agent(Protocol):
    """What runs inside an attempt. May be async."""

    def __call__(self, context: AgentContext) -> str | AgentResult | Awaitable[str | AgentResult]: ...


class ReplyCache(Protocol):
    """Replies of models that evaluators ask, kept from run to run. ``key`` names everything that decided the reply."""

    def judge_reply(self, key: str) -> str | None: ...

    def save_judge_reply(self, key: str, text: str) -> bool: ...


@dataclass(frozen=True)
class EvaluationContext:
    """What an evaluator may use besides the sample and the attempt."""

    engine: TextEngine | None = None
    earlier_attempts: tuple[Attempt, ...] = ()
    cache: ReplyCache | None = None
    retry_delays_s: tuple[float, ...] = ()  # before each further try where the engine of an evaluator breaks


@runtime_checkable
class Evaluator(Protocol):
    """Scores one attempt. A failure carries a category of the evaluator's closed set; raising is an error."""

    @property
    def id(self) -> str: ...

    @property
    def categories(self) -> frozenset[str]: ...

    def evaluate(self, sample: Sample, attempt: Attempt, context: EvaluationContext) -> EvalResult: ...


@runtime_checkable
class AnchoredEvaluator(Protocol):
    """An evaluator with items whose verdict is known (anchors), judged anew in every run: how far is it to be trusted?

    None where it has no anchors. Errors are counted in the report, never raised.
    """

    @property
    def id(self) -> str: ...

    def judge_anchors(self, context: EvaluationContext) -> AnchorReport | None: ...


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
