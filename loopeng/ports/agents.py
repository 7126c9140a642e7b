"""What runs inside an attempt, and everything it may look at."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from loopeng.ports.engines import BoundEngine
from loopeng.schema import Message, Usage

__all__ = ["Agent", "AgentBudget", "AgentContext", "AgentResult", "AgentSource", "CompiledGraph"]


@dataclass(frozen=True)
class AgentBudget:
    """What the task's ``limits`` leave when the attempt begins, this one included; None where there is no limit.

    The loop itself stops between attempts only: an agent that may spend much should look.
    """

    attempts: int | None = None
    total_tokens: int | None = None
    total_time_s: float | None = None


@dataclass(frozen=True)
class AgentContext:
    """Everything one attempt may look at: what to do, what went wrong before, and an engine that is set up for it.

    ``messages`` is the conversation that the retry policy prepared: an agent that is one call of a model sends it as
    it is. Others make their own prompts out of ``instructions``, ``feedback`` and ``earlier_outputs``. ``engine`` has
    the attempt's seed, temperature and sampling settings, and the earlier outputs as reference texts, so that drafts
    may follow them; what it costs is counted. Async agents await ``engine.agenerate``; any client of the OpenAI
    protocol finds it under ``engine.endpoint()``.

    >>> from loopeng import Loop
    >>> async def agent(context: AgentContext) -> str:
    ...     facts = await context.engine.agenerate(f"Three facts about a {context.input['product']}.")
    ...     reply = await context.engine.agenerate(f"{context.instructions} Use these facts: {facts.text}")
    ...     return reply.text
    >>> def model(messages, params):
    ...     return f"seen: {messages[-1]['content']}"
    >>> with Loop.open("loop.db", engine=model, agent=agent) as loop:
    ...     loop.attempt(
    ...         "describe",
    ...         {"product": "mug"},
    ...         template="Describe a {{ product }}.{{ rules }}",
    ...         evaluators=[{"id": "names-it", "type": "contains", "value": "mug"}],
    ...     ).text
    'seen: Describe a mug. Use these facts: seen: Three facts about a mug.'
    """

    instructions: str  # the head prompt, rendered with input
    input: Mapping[str, Any]
    messages: tuple[Message, ...]
    engine: BoundEngine
    feedback: str | None = None  # what the evaluators said of the last attempt, redacted; None in a resample
    earlier_outputs: tuple[str, ...] = ()  # the first attempt's first
    attempt_index: int = 0
    seed: int = 0
    temperature: float = 0.0
    budget: AgentBudget = AgentBudget()


@dataclass(frozen=True)
class AgentResult:
    """What an agent returns; a bare string stands for ``AgentResult(text=...)``.

    ``trajectory`` is what it did on the way: for the evaluator ``tool_calls`` a list of calls,
    ``{"name": "search", "args": {"query": "mugs"}, "content": "3 found"}``, or of messages. ``usage`` is what it spent
    besides the context's engine, which counts by itself.
    """

    text: str
    trajectory: Any = None
    usage: Usage = field(default_factory=Usage)
    token_ids: tuple[int, ...] | None = None
    finish_reason: str | None = None
    fingerprint: str | None = None


class Agent(Protocol):
    """What runs inside an attempt. May be async."""

    def __call__(self, context: AgentContext) -> str | AgentResult | Awaitable[str | AgentResult]: ...


class CompiledGraph(Protocol):
    """A compiled graph of LangGraph, as ``StateGraph.compile`` and LangChain's ``create_agent`` make them."""

    def ainvoke(self, input: Any, config: Any = None) -> Awaitable[Any]: ...  # noqa: A002  the name is theirs


AgentSource = Agent | CompiledGraph
"""What an agent can be made from: a function of an AgentContext, sync or async, or a compiled graph."""
