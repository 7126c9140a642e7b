"""The steps of one sample. Each writes under a natural key, so running it twice changes nothing.

``load`` lays out what the rows know, ``generate`` and ``evaluate`` make one attempt and save it, ``decide`` looks at
it, ``retry`` chooses the next move, ``record`` writes how the sample ended.
"""

from __future__ import annotations

from loopeng.attempt.best import best_attempt, sample_result
from loopeng.attempt.events import AttemptFinished, SampleFinished
from loopeng.attempt.generation import make_attempt, render_instructions
from loopeng.attempt.retry import Situation, next_move
from loopeng.attempt.state import AttemptContext, AttemptState, Desk
from loopeng.evaluators import judge_attempt, run_evaluators
from loopeng.ports import EvaluationContext
from loopeng.schema import Attempt

__all__ = ["decide", "evaluate", "generate", "load", "record", "retry"]


def load(state: AttemptState, context: AttemptContext) -> AttemptState:
    """Go on where the rows end."""
    desk = context.desk(state)
    if not desk.attempts:
        return {"attempt_index": 0, "next_step": "generate"}
    return {"attempt_index": max(desk.attempts), "next_step": "decide"}


def generate(state: AttemptState, context: AttemptContext) -> AttemptState:
    """Make a draft of the attempt. Raises BudgetStop before it where a limit is reached."""
    context.budget.check()
    desk = context.desk(state)
    desk.draft = make_attempt(context, desk, state["attempt_index"])
    return {}


def evaluate(state: AttemptState, context: AttemptContext) -> AttemptState:
    """Judge the draft and save it with its results."""
    desk, store = context.desk(state), context.harness.store
    if desk.draft is None:
        return {}
    attempt = _judge(context, desk, desk.draft)
    is_new = store.save_attempt(attempt)
    if is_new:
        desk.attempts[attempt.attempt_index] = attempt
        context.budget.count(attempt)
    else:  # somebody else works on this run as well: what was saved first counts
        saved = store.attempts(context.run.id, desk.sample.id, desk.repeat)
        desk.attempts = {attempt.attempt_index: attempt for attempt in saved}
    desk.draft = None
    if is_new:
        context.harness.on_event(AttemptFinished(attempt, desk.sample))
    return {}


def decide(state: AttemptState, context: AttemptContext) -> AttemptState:
    """Stop at a pass, at the last attempt, and where the engine or agent broke for good; else try again."""
    attempt = context.desk(state).attempts[state["attempt_index"]]
    is_last = attempt.attempt_index + 1 >= context.max_attempts
    broken = attempt.error is not None
    return {"next_step": "record" if attempt.verdict == "pass" or is_last or broken else "retry"}


def retry(state: AttemptState, context: AttemptContext) -> AttemptState:
    """Choose the next move."""
    desk = context.desk(state)
    attempt_index = state["attempt_index"] + 1
    temperature = context.harness.task.temperature(attempt_index)
    situation = Situation(render_instructions(context, desk), desk.in_order, temperature)
    desk.move = next_move(context.policy, situation)
    return {"attempt_index": attempt_index}


def record(state: AttemptState, context: AttemptContext) -> AttemptState:
    """Write how the sample ended; its best attempt is the answer."""
    desk = context.desk(state)
    result = sample_result(desk.in_order, desk.sample.split)
    if context.harness.store.save_sample_result(result):
        context.harness.on_event(SampleFinished(result))
    context.clear_desk(desk)
    return {
        "run_id": result.run_id,
        "sample_id": result.sample_id,
        "repeat": result.repeat,
        "verdict": result.verdict,
        "score": result.score,
        "text": best_attempt(desk.in_order).text,
        "num_attempts": result.num_attempts,
    }


def _judge(context: AttemptContext, desk: Desk, draft: Attempt) -> Attempt:
    """The draft with its verdict. The same text as before is not evaluated again, where the text alone decides."""
    if draft.error is not None:
        return draft
    task, evaluators = context.harness.task, context.harness.evaluators
    earlier = tuple(attempt for attempt in desk.in_order if attempt.attempt_index < draft.attempt_index)
    twin = next((each for each in earlier if each.text == draft.text and each.verdict != "error"), None)
    if twin is not None and all(getattr(each, "reads_text_alone", True) for each in evaluators):
        results, verdict, score = twin.results, twin.verdict, twin.score
    else:
        harness = context.harness
        evaluation = EvaluationContext(engine=harness.engine, earlier_attempts=earlier, cache=harness.store)
        results = run_evaluators(evaluators, desk.sample, draft, evaluation)
        verdict, score = judge_attempt(results, task.pass_, {spec.id: spec.weight for spec in task.evaluators})
    duplicate_of = twin.attempt_index if twin is not None else None
    return draft.model_copy(
        update={"results": results, "verdict": verdict, "score": score, "duplicate_of": duplicate_of}
    )
