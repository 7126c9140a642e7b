"""One generation: the agent is run with everything set, and tried again where the infrastructure breaks."""

from __future__ import annotations

import asyncio
import copy
import json
import time
from contextlib import closing
from dataclasses import dataclass, replace

from pydantic import TypeAdapter, ValidationError

from loopeng.attempt.events import EngineRetried
from loopeng.attempt.retry import Move, first_move
from loopeng.attempt.seeds import attempt_seed
from loopeng.attempt.state import AttemptContext, Desk
from loopeng.engines import MeteredEngine, finish
from loopeng.errors import EngineError, TaskError
from loopeng.ports import AgentContext, AgentResult, TextRequest
from loopeng.prompts import PromptTemplate
from loopeng.schema import Attempt, FaultSide, Usage, utc_now

__all__ = ["ERROR_SIDES", "make_attempt", "render_instructions"]

ERROR_SIDES: dict[str, FaultSide] = {
    "prompt_error": "harness",
    "agent_error": "harness",
    "engine_error": "environment",
}
"""Whose fault an attempt in error is, by its finish reason: what broke before there was a text to judge."""

_RESULT = TypeAdapter(AgentResult)


@dataclass(frozen=True)
class _Answer:
    """What the agent came to. ``usage`` includes the tries that broke; ``error`` is that of the last one."""

    result: AgentResult
    usage: Usage
    latency_s: float = 0.0
    error: str | None = None


def make_attempt(context: AttemptContext, desk: Desk, attempt_index: int) -> Attempt:
    """Generate. The attempt's verdict is "error" until it is judged; it stays so where the answer never came.

    Never raises for a bad sample or a broken agent; KeyboardInterrupt passes through.
    """
    seed = attempt_seed(context.run.seed, desk.sample.id, attempt_index, desk.repeat)
    try:
        instructions = render_instructions(context, desk)
    except TaskError as error:
        move, answer = Move("first", (), 0.0), _Answer(_nothing("prompt_error"), Usage(), error=str(error))
    else:
        move = desk.move or first_move(instructions, context.harness.task.temperature(attempt_index))
        with closing(MeteredEngine(context.harness.engine, _request(context, desk, move, seed))) as engine:
            agent_context = _agent_context(context, desk, attempt_index, instructions, move, engine)
            answer = _run_agent(context, desk, agent_context, engine)
    return Attempt(
        run_id=context.run.id,
        sample_id=desk.sample.id,
        repeat=desk.repeat,
        attempt_index=attempt_index,
        policy=move.policy,
        seed=seed,
        temperature=move.temperature,
        messages=move.messages,
        text=answer.result.text,
        token_ids=answer.result.token_ids,
        finish_reason=answer.result.finish_reason,
        trajectory=answer.result.trajectory,
        usage=answer.usage,
        latency_s=answer.latency_s,
        fingerprint=answer.result.fingerprint,
        verdict="error",
        error=answer.error,
        created_at=utc_now(),
    )


def render_instructions(context: AttemptContext, desk: Desk) -> str:
    """The prompt version with its rules and the sample's inputs. Raises TaskError where an input is missing."""
    return PromptTemplate(context.version.template).render(desk.sample.inputs, context.version.rules)


def _request(context: AttemptContext, desk: Desk, move: Move, seed: int) -> TextRequest:
    earlier = [attempt.text for attempt in reversed(desk.in_order)]  # the latest is the likeliest to be followed
    references = [text for text in (*earlier, *context.references.get(desk.sample.id, ())) if text]
    return TextRequest.of(
        context.harness.task.engine,
        messages=move.messages,
        temperature=move.temperature,
        seed=seed,
        reference_texts=tuple(dict.fromkeys(references)),
    )


def _agent_context(
    context: AttemptContext, desk: Desk, attempt_index: int, instructions: str, move: Move, engine: MeteredEngine
) -> AgentContext:
    return AgentContext(
        instructions=instructions,
        input=copy.deepcopy(desk.sample.inputs),  # the agent's own: what it changes is nobody else's input
        messages=move.messages,
        engine=engine,
        feedback=move.feedback,
        earlier_outputs=tuple(attempt.text for attempt in desk.in_order),
        attempt_index=attempt_index,
        seed=engine.seed,
        temperature=move.temperature,
        budget=context.budget.left(),
    )


def _run_agent(context: AttemptContext, desk: Desk, agent_context: AgentContext, engine: MeteredEngine) -> _Answer:
    """The first try that succeeds, else the error of the last one. Further tries have the same seed."""
    delays_s = context.harness.retry_delays_s
    num_failures = 0
    while True:
        started = time.perf_counter()
        engine.begin()
        try:
            result: str | AgentResult = finish(context.harness.agent(agent_context))
            result = _storable(result, engine)
            return _Answer(result, _larger(result.usage, engine.usage), time.perf_counter() - started)
        except (Exception, SystemExit, asyncio.CancelledError) as error:  # noqa: BLE001  a value, not the end
            failure = str(error) if isinstance(error, EngineError) else f"{type(error).__name__}: {error}"
            if num_failures >= len(delays_s) or getattr(error, "is_final", False):
                nothing = _nothing("engine_error" if engine.broke else "agent_error")
                return _Answer(nothing, engine.usage, time.perf_counter() - started, failure)
        num_failures += 1
        context.harness.on_event(EngineRetried(desk.sample, agent_context.attempt_index, num_failures, failure))
        time.sleep(delays_s[num_failures - 1])


def _nothing(why: str) -> AgentResult:
    return AgentResult(text="", finish_reason=why)


def _storable(result: str | AgentResult, engine: MeteredEngine) -> AgentResult:
    """The result as a row can hold it. Raises EngineError where it cannot: no text, a token id that is no number."""
    if isinstance(result, str):
        result = AgentResult(text=result)
    if not isinstance(result.text, str):
        raise EngineError(f"the agent's text is {type(result.text).__name__}, not a string")
    storable = replace(
        result,
        text=result.text.encode("utf-8", "replace").decode("utf-8"),  # a lone surrogate cannot be stored
        trajectory=json.loads(json.dumps(result.trajectory, default=str)),
        fingerprint=result.fingerprint or engine.fingerprint,
    )
    try:
        return _RESULT.validate_python(vars(storable))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise EngineError(f"the agent's {field} is {first['input']!r}: {first['msg']}") from error


def _larger(reported: Usage, metered: Usage) -> Usage:
    """An agent may report what it spent elsewhere; what went through its engine is known anyway."""
    return reported if reported.total_tokens > metered.total_tokens else metered
