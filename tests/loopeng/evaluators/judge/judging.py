"""How the judges' tests ask: an engine that is any function of the request, and one evaluator's word."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from loopeng.engines.scripted import ScriptedEngine
from loopeng.evaluators import build_evaluators, run_evaluators
from loopeng.ports import EngineInfo, EvaluationContext, TextEngine, TextReply, TextRequest
from loopeng.schema import Attempt, EvalResult
from tests.loopeng.evaluators.conftest import make_attempt, make_sample

POLITE: dict[str, Any] = {"id": "polite", "description": "The answer is polite."}
CLEAR: dict[str, Any] = {"id": "clear", "description": "The answer is clear", "scale": "1-5", "weight": 3}


def ruling(reasoning: str | None = None, **verdicts: str | int) -> str:
    head = {} if reasoning is None else {"reasoning": reasoning}
    return json.dumps({**head, "verdicts": verdicts})


def says_pass(request: TextRequest) -> str:
    """A script by reference: nobody knows what a function does, so its engine counts as non-deterministic."""
    return ruling(criteria="pass")


class Replies:
    """Replies from a list, one per call, the last one for ever; remembers the requests."""

    def __init__(self, *replies: str | Exception) -> None:
        self.replies, self.requests = replies, list[TextRequest]()

    def __call__(self, request: TextRequest) -> str:
        self.requests.append(request)
        reply = self.replies[min(len(self.requests), len(self.replies)) - 1]
        if isinstance(reply, Exception):
            raise reply
        return reply

    @property
    def prompts(self) -> list[str]:
        return [request.messages[-1].content for request in self.requests]


class Engine:
    """Any function of the request, which says of itself what a test needs."""

    def __init__(self, function: Callable[[TextRequest], str], **info: Any) -> None:
        self._engine = ScriptedEngine(function)
        self._info = {"deterministic": True, "model": "m", "fingerprint": "these numerics"} | info

    def generate(self, request: TextRequest) -> TextReply:
        return self._engine.generate(request)

    def describe(self) -> EngineInfo:
        return EngineInfo(kind="test", **self._info)


def ask(
    engine: TextEngine | Callable[[TextRequest], str] | None,
    text: str = "Hello.",
    *,
    kind: str = "llm_judge",
    target: Any = None,
    given: dict[str, Any] | None = None,
    prompt: str = "Greet.",
    cache: Any = None,
    earlier: tuple[Attempt, ...] = (),
    delays_s: tuple[float, ...] = (),
    **keys: Any,
) -> EvalResult:
    """One judge's word on one answer; ``given`` are the sample's inputs."""
    if engine is not None and not isinstance(engine, TextEngine):
        engine = ScriptedEngine(engine)
    built = build_evaluators([{"id": "it", "type": kind, **keys}])
    context = EvaluationContext(engine=engine, earlier_attempts=earlier, cache=cache, retry_delays_s=delays_s)
    return run_evaluators(built, make_sample(target, **(given or {})), make_attempt(text, prompt), context)[0]
