"""Asking a judge: held to a schema where the engine can, read strictly everywhere, asked once more, then an error.

An engine that breaks is asked again as often as the engine of an attempt is, then it is an error of the environment.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from loopeng.engines import generate_patiently
from loopeng.errors import EngineError, RequestRefusedError
from loopeng.evaluators.base import CheckError
from loopeng.evaluators.judge.replies import MalformedReplyError
from loopeng.ports import EngineInfo, ReplyCache, TextEngine, TextRequest
from loopeng.prompts import load_prompt
from loopeng.schema import FaultSide, JudgeUsage, Message, content_hash
from loopeng.schema.task import EngineSpec

__all__ = ["Asker", "Question"]

T = TypeVar("T")
_READING = 1  # of the cache's keys: raise it where replies are read in another way
_NOT_HELD = "the engine does not hold replies to a schema"


@dataclass(frozen=True)
class Question(Generic[T]):
    """What is asked. The second try asks for the ``short`` form: a long reasoning may have been cut off."""

    prompt: str
    schema: dict[str, Any]
    short_schema: dict[str, Any]
    short_form: str
    read: Callable[[str], T]  # raises MalformedReplyError


@dataclass
class Asker:
    """The questions of one judgement, and what they cost. Belongs to one thread.

    Every question has its own seed, drawn from its text and the number of the vote: the same question is answered the
    same way by a deterministic engine. Only replies of one that says who it is are cached, of those only what could be
    read.
    """

    engine: TextEngine
    settings: EngineSpec
    temperature: float
    cache: ReplyCache | None = None
    retry_delays_s: tuple[float, ...] = ()  # before each further try where the engine breaks
    usage: JudgeUsage = field(default_factory=JudgeUsage)
    not_held: str | None = None  # why replies were read only, not held to the schema
    _info: EngineInfo = field(init=False)

    def __post_init__(self) -> None:
        self._info = self.engine.describe()

    def ask(self, question: Question[T], vote: int = 0) -> T:
        """The reply, read. Raises CheckError, with what was asked so far."""
        try:
            return self._asked(question, vote)
        except MalformedReplyError as error:
            told = f"the judge's reply could not be read, nor could a second one: {error}"
            raise self._error(told, "grader") from None
        except RequestRefusedError as error:
            raise self._error(f"the judge's engine refuses the question: {error}", "grader") from error
        except EngineError as error:
            raise self._error(f"the judge's engine broke: {error}", "environment") from error

    def _error(self, message: str, side: FaultSide) -> CheckError:
        return CheckError(message, side, self.metadata())

    def _asked(self, question: Question[T], vote: int) -> T:
        try:
            return self._answer(question.prompt, question.schema, question.read, vote)
        except MalformedReplyError as error:
            problem = str(error)
        self.usage += JudgeUsage(num_asked_again=1)
        prompt = load_prompt("judge/again").render(prompt=question.prompt, problem=problem, form=question.short_form)
        return self._answer(prompt, question.short_schema, question.read, vote)

    def metadata(self) -> dict[str, Any]:
        """What a result keeps of the asking."""
        return {
            "judge_usage": self.usage.model_dump(),
            "held_to_schema": self.not_held is None,
            **({"not_held": self.not_held} if self.not_held is not None else {}),
        }

    def _answer(self, prompt: str, schema: dict[str, Any], read: Callable[[str], T], vote: int) -> T:
        request = TextRequest.of(
            self.settings,
            messages=(Message(role="user", content=prompt),),
            temperature=self.temperature,
            seed=_seed(prompt, vote),
        )
        if not self._info.structured_output:
            self.not_held = _NOT_HELD
            return self._read(request, read, vote)
        try:
            return self._read(request.model_copy(update={"response_schema": schema}), read, vote)
        except RequestRefusedError as error:  # the schema, or the whole request: then it is refused again
            self.not_held = f"the engine refused the schema: {error}"
        return self._read(request, read, vote)

    def _read(self, request: TextRequest, read: Callable[[str], T], vote: int) -> T:
        known = self._info.deterministic and self._info.fingerprint is not None
        cache = self.cache if known else None
        key = "" if cache is None else self._key(request, vote)
        kept = None if cache is None else cache.judge_reply(key)
        if kept is not None:
            self.usage += JudgeUsage(num_cached=1)
            return read(kept)
        reply = generate_patiently(self.engine, request, self.retry_delays_s)
        self.usage += JudgeUsage(
            num_calls=1,
            prompt_tokens=reply.usage.prompt_tokens,
            generated_tokens=reply.usage.generated_tokens,
            latency_s=reply.latency_s,
        )
        value = read(reply.text)
        if cache is not None:
            cache.save_judge_reply(key, reply.text)
        return value

    def _key(self, request: TextRequest, vote: int) -> str:
        """Everything that decides a reply: the engine, and the request with prompt, sampling, seed and schema."""
        engine = self._info.model_dump(mode="json", exclude={"concurrency"})  # how many at once decides no reply
        asked = request.model_dump(mode="json")
        return content_hash({"reading": _READING, "engine": engine, "request": asked, "vote": vote})


def _seed(prompt: str, vote: int) -> int:
    return int.from_bytes(hashlib.sha256(json.dumps([prompt, vote]).encode()).digest()[:8]) >> 1
