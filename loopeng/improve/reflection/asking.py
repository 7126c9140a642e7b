"""The engine a reflector asks. What it answers is kept as attempts of a run of kind ``reflect``: counted, and never
asked for twice.
"""

from __future__ import annotations

from dataclasses import dataclass

from loopeng.attempt.harness import Harness
from loopeng.engines import LazyEngine, build_engine, generate_patiently
from loopeng.improve.spending import Spending
from loopeng.ports import EngineInfo, TextEngine, TextReply, TextRequest
from loopeng.schema import Attempt, Proposal, Run, Task, content_hash, utc_now

__all__ = ["ReflectionEngine", "reflection_engine", "reflection_request"]

_MAX_TOKENS = 256


def reflection_engine(harness: Harness) -> TextEngine:
    """``improve.engine``, made at its first use, or the task's."""
    spec, folder = harness.task.improve.engine, harness.task.folder
    return harness.engine if spec is None else LazyEngine(lambda: build_engine(spec, folder))


def reflection_request(task: Task) -> TextRequest:
    """The settings of a call: those of ``improve.engine``, and greedy where it says no temperature."""
    spec = task.improve.engine
    if spec is None:
        return TextRequest(messages=(), max_tokens=_MAX_TOKENS, seed=task.run.seed)
    return TextRequest.of(spec, messages=(), temperature=spec.temperature or 0.0, seed=task.run.seed)


@dataclass(frozen=True)
class ReflectionEngine:
    """An engine within ``improve.limits``. The same request for the same proposal gets the answer that is kept."""

    harness: Harness
    proposal: Proposal
    engine: TextEngine
    spending: Spending

    def generate(self, request: TextRequest) -> TextReply:
        """Raises BudgetStop at one of the limits, EngineError where the engine breaks for good."""
        store, run = self.harness.store, self._run()
        name = f"ask-{content_hash(request.model_dump(mode='json'))[:16]}"
        if kept := store.attempts(run.id, name):
            return _reply_of(kept[0])
        self.spending.check()
        reply = generate_patiently(self.engine, request, self.harness.retry_delays_s)
        store.save_attempt(_attempt_of(run, name, request, reply))
        return reply

    def describe(self) -> EngineInfo:
        return self.engine.describe()

    def _run(self) -> Run:
        store, proposal = self.harness.store, self.proposal
        earlier = store.runs(proposal_id=proposal.id, kind="reflect")
        return (
            earlier[0]
            if earlier
            else store.create_run(
                kind="reflect",
                task=self.harness.task,
                version=store.prompt_version(proposal.base_version_id),
                seed=self.harness.task.run.seed,
                proposal_id=proposal.id,
                engine=self.engine.describe().model_dump(mode="json"),
            )
        )


def _attempt_of(run: Run, name: str, request: TextRequest, reply: TextReply) -> Attempt:
    return Attempt(
        run_id=run.id,
        sample_id=name,
        seed=request.seed,
        temperature=request.temperature,
        messages=request.messages,
        text=reply.text,
        token_ids=reply.token_ids,
        finish_reason=reply.finish_reason,
        usage=reply.usage,
        latency_s=reply.latency_s,
        fingerprint=reply.fingerprint,
        verdict="pass",  # it was answered; whether the answer is of use, the suggestion says
        created_at=utc_now(),
    )


def _reply_of(attempt: Attempt) -> TextReply:
    return TextReply(
        text=attempt.text,
        token_ids=attempt.token_ids,
        finish_reason=attempt.finish_reason,
        usage=attempt.usage,
        latency_s=attempt.latency_s,
        fingerprint=attempt.fingerprint,
    )
