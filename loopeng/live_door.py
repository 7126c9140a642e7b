"""The door for applications: answers within the loop, and the traffic that they answer by themselves."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from loopeng.errors import EngineError, UsageError
from loopeng.evaluators import EvaluatorSource
from loopeng.live import Answer, Asked, LiveCalls, arguments, readable_inputs
from loopeng.ports import AgentResult
from loopeng.prompts import PromptTemplate
from loopeng.results import AttemptResult, Instructions
from loopeng.schema import PromptVersion
from loopeng.schema.task import EngineSpec, LoopSpec, PromptSpec, RetryName, RunSpec
from loopeng.store import LoopStore, Purge

__all__ = ["LiveDoor"]

_NUM_THREADS = 64  # of async calls: they mostly wait for an engine
_OF_A_REQUEST = {"max_tokens", "temperature", "top_k", "top_p", "repetition_penalty", "stop"}
T = TypeVar("T")


class LiveDoor(ABC):
    """Base of ``Loop``: the part of it that an application's calls go through. Safe from threads and event loops."""

    _threads: ThreadPoolExecutor | None = None
    _starting = threading.Lock()

    @property
    @abstractmethod
    def store(self) -> LoopStore:
        """The open database."""

    @property
    @abstractmethod
    def _live(self) -> LiveCalls:
        """What answers and records calls. Raises UsageError once it is closed."""

    @property
    @abstractmethod
    def _has_engine(self) -> bool:
        """Whether an engine was given; else each call may name one."""

    def attempt(
        self,
        prompt_name: str,
        inputs: Mapping[str, Any],
        *,
        evaluators: Sequence[EvaluatorSource],
        max_attempts: int = 3,
        template: str | None = None,
        retry: RetryName | None = None,
        engine: Mapping[str, Any] | None = None,
        seed: int = 0,
    ) -> AttemptResult:
        """Answer one input inside an app: generate, evaluate, retry; the best answer comes back.

        The prompt is the head of ``prompt_name``; a ``template`` is adopted as a task file's would be, once in the life
        of a process. ``engine`` has keys of a task's ``engine:`` section: ``max_tokens``, ``temperature`` ...; where
        ``Loop.open`` was given no engine, also which model.

        ``retry`` is a task's ``loop.retry``: unset, ``resample`` where ``unit_tests`` alone decide, else ``critique``.

        The input becomes a sample of ``live:<prompt_name>``, the call a repeat of it (see ``LiveSettings``). A database
        that is away costs a RecordingWarning, not the answer.

        Raises UsageError for arguments that cannot be used (an input that the prompt needs is missing), NotFoundError
        for an unknown prompt, EngineError where engine or agent broke.
        """
        asked = Asked(
            evaluators=evaluators,
            template=_checked_template(prompt_name, template),
            loop=arguments(LoopSpec, max_attempts=max_attempts, retry=retry),
            engine=self._engine_spec(engine),
            seed=arguments(RunSpec, seed=seed).seed,
        )
        return _result(self._live.call(prompt_name, inputs, asked))

    async def aattempt(self, prompt_name: str, inputs: Mapping[str, Any], **options: Any) -> AttemptResult:
        """``attempt`` in a thread, for programs with an event loop."""
        return await self._in_thread(partial(self.attempt, prompt_name, inputs, **options))

    def observe(
        self,
        prompt_name: str,
        inputs: Mapping[str, Any],
        output: str | AgentResult,
        *,
        evaluators: Sequence[EvaluatorSource],
        template: str | None = None,
        version: PromptVersion | None = None,
    ) -> AttemptResult:
        """Judge and record an answer that the app has given by itself; it is not tried again.

        ``version`` is the one whose text the app used (``instructions`` gives it), by default the head. Usage and
        trajectory can be given in an AgentResult. Raises as ``attempt`` does, but for the engine, which is not asked.
        """
        if not isinstance(output, str | AgentResult):
            raise UsageError(f"output is the answer's text or an AgentResult, not {output!r}")
        if version is not None and version.prompt_name != prompt_name:
            raise UsageError(f"{version.id} is a version of prompt {version.prompt_name!r}, not of {prompt_name!r}")
        asked = Asked(
            evaluators=evaluators,
            template=_checked_template(prompt_name, template),
            loop=LoopSpec(max_attempts=1),
            output=output,
            version=version,
        )
        return _result(self._live.call(prompt_name, inputs, asked))

    async def aobserve(
        self, prompt_name: str, inputs: Mapping[str, Any], output: str | AgentResult, **options: Any
    ) -> AttemptResult:
        """``observe`` in a thread, for programs with an event loop."""
        return await self._in_thread(partial(self.observe, prompt_name, inputs, output, **options))

    def instructions(self, prompt_name: str, inputs: Mapping[str, Any], *, template: str | None = None) -> Instructions:
        """The head of a prompt with its learned rules, filled in: for an app that generates by itself.

        Give its version to ``observe``. Raises UsageError for an input that the prompt lacks, NotFoundError for an
        unknown prompt.
        """
        version = self._live.head(prompt_name, _checked_template(prompt_name, template))
        values = readable_inputs(inputs, version, ())
        return Instructions(PromptTemplate(version.template).render(values, version.rules), version)

    def purge(self) -> Purge:
        """Take out of the database what ``LiveSettings`` does not let it keep; calls do so now and then by themselves.

        Gone are inputs, conversations and answers, and what evaluators, judges and reflectors said of them. Counts,
        verdicts, failure patterns and the evidence of proposals stay. Raises StoreError where the database is away.
        """
        return self._live.purge()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """In threads of our own: an app's other work in threads must not wait for engines."""
        _ = self._live  # raises where it is closed
        with self._starting:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(_NUM_THREADS, thread_name_prefix="loopeng-live")
            threads = self._threads
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(threads, context.run, work)

    def _close_threads(self) -> None:
        with self._starting:
            threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown()

    def _engine_spec(self, settings: Mapping[str, Any] | None) -> EngineSpec:
        if settings is None:
            return EngineSpec()
        if not isinstance(settings, Mapping):
            raise UsageError(f"engine is a mapping of settings, such as {{'max_tokens': 64}}, not {settings!r}")
        spec = arguments(EngineSpec, **settings)
        others = sorted(spec.model_fields_set - _OF_A_REQUEST)
        if self._has_engine and others:
            raise UsageError(f"engine[{others[0]!r}] says which engine, but Loop.open was given one")
        return spec


def _checked_template(prompt_name: str, template: str | None) -> str | None:
    if template is not None:
        arguments(PromptSpec, name=prompt_name, template=template)
    return template


def _result(answer: Answer) -> AttemptResult:
    """Raises EngineError where even the best attempt has no answer."""
    best = answer.best
    if best.error is not None:
        raise EngineError(best.error)
    passed = None if best.verdict == "error" else best.verdict == "pass"
    return AttemptResult(best.text, passed, best.score, answer.attempts, answer.version)
