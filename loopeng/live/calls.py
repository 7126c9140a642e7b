"""One call of an application: answered within the loop, under the prompt's head, and recorded."""

from __future__ import annotations

import json
import random
import secrets
import threading
import uuid
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

from loopeng.agents import as_agent, section_of
from loopeng.attempt.best import best_attempt, sample_result
from loopeng.attempt.budget import Budget
from loopeng.attempt.harness import Harness
from loopeng.attempt.state import AttemptContext
from loopeng.engines import LazyEngine, as_engine, build_engine
from loopeng.errors import LoopError, RecordingWarning, UsageError
from loopeng.evaluators import EvaluatorSource, build_evaluators
from loopeng.live.heads import KnownHeads
from loopeng.live.reach import Reach
from loopeng.live.recorder import Recorder
from loopeng.live.records import CallRecords
from loopeng.live.redaction import Redactor
from loopeng.live.tasks import (
    engine_section,
    evaluator_section,
    live_sample,
    live_task,
    readable_inputs,
)
from loopeng.patterns.miner import shown_failures
from loopeng.ports import AgentContext, AgentResult, AgentSource, EngineInfo, Evaluator, GenerateFunction, TextEngine
from loopeng.schema import Attempt, PromptVersion, Sample, Task, utc_now
from loopeng.schema.task import AgentSpec, BudgetSpec, EngineSpec, LoopSpec
from loopeng.settings import LiveSettings
from loopeng.store import LiveCall, LiveSource, LoopStore, Purge

__all__ = ["Answer", "Asked", "LiveCalls"]

_STEPS_PER_ATTEMPT = 4  # of the graph: generate, evaluate, decide, retry
_NUM_WORKS = 100
_AS_IT_IS = Redactor()
_SAMPLING = ("max_tokens", "temperature", "top_k", "top_p", "repetition_penalty", "stop")


@dataclass(frozen=True)
class Asked:
    """How an application wants an input answered. With ``output`` it has answered by itself, under ``version``."""

    evaluators: Sequence[EvaluatorSource]
    template: str | None = None
    loop: LoopSpec = field(default_factory=LoopSpec)
    engine: EngineSpec = field(default_factory=EngineSpec)
    seed: int = 0
    output: str | AgentResult | None = None
    version: PromptVersion | None = None


@dataclass(frozen=True)
class Answer:
    """All attempts of a call in order, and the version they were made under."""

    attempts: tuple[Attempt, ...]
    version: PromptVersion

    @property
    def best(self) -> Attempt:
        return best_attempt(self.attempts)


@dataclass(frozen=True)
class _Work:
    """What calls that ask for the same share: their harness, and the run of each day."""

    source: LiveSource
    harness: Harness
    is_recorded: bool  # not where what they ask for cannot be redacted


class LiveCalls:
    """Everything that ``Loop`` needs for calls. Usable from any thread."""

    def __init__(
        self,
        store: LoopStore,
        settings: LiveSettings,
        *,
        engine: TextEngine | GenerateFunction | None = None,
        agent: AgentSource | None = None,
    ) -> None:
        self._store, self._settings, self._engine, self._agent = store, settings, engine, agent
        self._redactor = Redactor(settings.redact)
        self._reach = Reach(store, settings)
        self._recorder = Recorder(self._reach, settings)
        self._heads = KnownHeads(settings.head_seconds, self._reach, self._recorder.warn)
        self._works: dict[tuple[object, ...], _Work] = {}
        self._engines: dict[str, TextEngine] = {}  # by the model's part of their settings
        self._making = threading.Lock()

    def call(self, prompt_name: str, inputs: Mapping[str, Any], asked: Asked) -> Answer:
        """Answer one input, or take the application's own answer, and record it.

        Raises UsageError where the prompt or an evaluator needs what the input lacks, NotFoundError for an unknown
        prompt, StoreError only where neither the head nor a template is known. What breaks engine or agent is in the
        attempts.
        """
        evaluators = build_evaluators(asked.evaluators)
        if not evaluators:
            raise UsageError("give at least one evaluator: without one no answer can be judged")
        version = asked.version or self.head(prompt_name, asked.template)
        values = readable_inputs(inputs, version, evaluators)
        work = self._work(version, evaluators, asked)
        harness = replace(work.harness, evaluators=evaluators)
        if asked.output is not None:
            harness = replace(harness, agent=_Answered(asked.output))
        stored = self._stored_sample(values) if work.is_recorded else None
        return self._answer(work.source, harness, values, stored)

    def head(self, prompt_name: str, template: str | None = None) -> PromptVersion:
        """The version to answer under; a ``template`` is adopted at this process's first call with it."""
        return self._heads.head(prompt_name, template)

    def evaluators_of(self, task: Task) -> tuple[Evaluator, ...] | None:
        """The evaluators of calls that this process has answered for such a task: they may be live objects."""
        for work in list(self._works.values()):
            if work.source.task.evaluators == task.evaluators:
                return work.harness.evaluators
        return None

    def purge(self) -> Purge:
        """Take the texts out of the database that are no longer to be kept."""
        return self._recorder.purge()

    def close(self) -> None:
        """Write what waits, and let the database go."""
        self._recorder.close()
        self._reach.close()

    def _answer(self, source: LiveSource, harness: Harness, values: dict[str, Any], stored: Sample | None) -> Answer:
        """``stored`` is the sample that is recorded, if the call is."""
        sample, at = stored or live_sample(values, _AS_IT_IS), utc_now()
        run, records = source.run(at), CallRecords(self._reach, self._redactor)
        with self._recorder.repeat(run.id, sample.id) if stored is not None else nullcontext() as repeat:
            own = secrets.randbelow(2**31) if repeat is None else repeat  # the seeds of no other call, most likely
            context = AttemptContext(
                harness=harness,
                run=run,
                version=source.version,
                samples={sample.id: sample.model_copy(update={"inputs": values})},
                budget=Budget(BudgetSpec()),
                max_attempts=harness.task.loop.max_attempts,
                own_records=records,
            )
            try:
                _invoke(context, sample.id, own)
            finally:  # what is made when somebody presses Ctrl-C is recorded, too
                if stored is not None and records.made:
                    records.made = self._recorded(source, stored, at, repeat, records.made)
        return Answer(tuple(records.made), source.version)

    def _stored_sample(self, values: Mapping[str, Any]) -> Sample | None:
        """The sample that is recorded; None where this call is not."""
        if random.random() >= self._settings.sample_rate:
            return None
        try:
            return live_sample(values, self._redactor)
        except Exception as error:  # noqa: BLE001  the application's own function redacts
            _warn_of_redaction(error)
            return None

    def _recorded(
        self, source: LiveSource, sample: Sample, at: datetime, repeat: int | None, made: list[Attempt]
    ) -> list[Attempt]:
        """The attempts, as they were made, with the place that their rows have."""
        try:
            attempts = tuple(map(self._redactor.attempt, made))
        except Exception as error:  # noqa: BLE001  as above; nothing of the call may be written then
            _warn_of_redaction(error)
            return made
        learned_from = sample.split == "reflect"
        failures = shown_failures(sample, attempts[0], source.task.watching) if learned_from else []
        result = sample_result(attempts, sample.split)
        call = LiveCall(uuid.uuid4().hex, source, sample, at, repeat, attempts, result, tuple(failures))
        place = self._recorder.keep(call)
        if place is None or place == (made[0].run_id, made[0].repeat):
            return made
        return [each.model_copy(update={"run_id": place[0], "repeat": place[1]}) for each in made]

    def _work(self, version: PromptVersion, evaluators: tuple[Evaluator, ...], asked: Asked) -> _Work:
        """Made once for calls that ask for the same: a task takes longer to make than an answer to be recorded."""
        sections = [evaluator_section(each, _AS_IT_IS) for each in evaluators]
        specs = json.dumps(sections, sort_keys=True, default=str)
        settings = asked.loop.model_dump_json(), asked.engine.model_dump_json(exclude_unset=True), asked.seed
        key = (version.id, version.text_hash, specs, *settings, asked.output is not None)
        if (known := self._works.get(key)) is not None:
            return known
        work = self._made(version, evaluators, asked)
        with self._making:
            if len(self._works) >= _NUM_WORKS:
                self._works.clear()
            return self._works.setdefault(key, work)

    def _made(self, version: PromptVersion, evaluators: tuple[Evaluator, ...], asked: Asked) -> _Work:
        engine, agent = self._engine_for(asked.engine), as_agent(self._agent) if self._agent is not None else None
        spec = asked.engine
        if asked.output is None and self._engine is not None:
            spec = engine_section(engine.describe(), asked.engine)
        section = section_of(agent) if agent is not None and asked.output is None else AgentSpec()
        make = partial(live_task, version, evaluators, loop=asked.loop, engine=spec, agent=section)
        try:
            task, is_recorded = make(self._redactor), self._settings.record
        except LoopError:
            raise
        except Exception as error:  # noqa: BLE001  the application's own function redacts
            _warn_of_redaction(error)
            task, is_recorded = make(_AS_IT_IS), False
        harness = Harness.build(self._store, task, engine=engine, agent=agent, evaluators=evaluators)
        described = _Answered.description() if asked.output is not None else harness.description()
        return _Work(LiveSource(task, version, asked.seed, described), harness, is_recorded)

    def _engine_for(self, spec: EngineSpec) -> TextEngine:
        """The application's, or one model for all calls that differ in their sampling alone."""
        if self._engine is not None:
            return as_engine(self._engine)
        usual = {name: EngineSpec.model_fields[name].get_default() for name in _SAMPLING}
        model = spec.model_copy(update=usual)
        with self._making:
            return self._engines.setdefault(model.model_dump_json(), LazyEngine(lambda: build_engine(model)))


def _invoke(context: AttemptContext, sample_id: str, repeat: int) -> None:
    from loopeng.attempt.graph import attempt_graph  # brings langgraph

    num_steps = 10 + _STEPS_PER_ATTEMPT * context.max_attempts
    attempt_graph().invoke({"sample_id": sample_id, "repeat": repeat}, {"recursion_limit": num_steps}, context=context)


@dataclass(frozen=True)
class _Answered:
    """The agent of an answer that the application has given by itself: nobody can make it give another one."""

    output: str | AgentResult
    reference: str | None = None
    replayable: bool = False

    def __call__(self, context: AgentContext) -> str | AgentResult:
        return self.output

    @staticmethod
    def description() -> dict[str, Any]:
        """In place of an engine's."""
        return EngineInfo(kind="application").model_dump(mode="json") | {"agent": None}


def _warn_of_redaction(error: Exception) -> None:
    what = f"a call was answered, but is not recorded, as it could not be redacted: {type(error).__name__}"
    warnings.warn(what, RecordingWarning, stacklevel=4)
