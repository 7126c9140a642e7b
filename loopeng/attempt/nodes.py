"""The steps of one sample. Each writes under a natural key, so running it twice changes nothing.

``load`` lays out what the rows know, ``generate`` and ``evaluate`` make one attempt and save it, ``decide`` looks at
it, ``retry`` chooses the next move, ``record`` writes how the sample ended.
"""

from __future__ import annotations

from loopeng.attempt.best import best_attempt, sample_result
from loopeng.attempt.events import AttemptFinished, SampleFinished
from loopeng.attempt.generation import make_attempt, render_instructions
from loopeng.attempt.judging import judged
from loopeng.attempt.retry import Situation, next_move
from loopeng.attempt.state import AttemptContext, AttemptState

__all__ = ["decide", "evaluate", "generate", "load", "record", "retry"]


def load(state: AttemptState, context: AttemptContext) -> AttemptState:
    """Go on where the rows end."""
    desk = context.desk(state)
    if not desk.attempts:
        return {"attempt_index": 0, "next_step": "generate"}
    return {"attempt_index": max(desk.attempts), "next_step": "decide"}


def generate(state: AttemptState, context: AttemptContext) -> AttemptState:
    """Make a draft of the attempt. Raises BudgetStop before it where a limit is reached."""
    context.budget.begin()
    desk = context.desk(state)
    desk.draft = make_attempt(context, desk, state["attempt_index"])
    return {}


def evaluate(state: AttemptState, context: AttemptContext) -> AttemptState:
    """Judge the draft and save it with its results."""
    desk, records = context.desk(state), context.records
    if desk.draft is None:
        return {}
    earlier = tuple(each for each in desk.in_order if each.attempt_index < desk.draft.attempt_index)
    attempt = judged(context.harness, desk.sample, desk.draft, earlier, records)
    is_new = records.save_attempt(attempt)
    if is_new:
        desk.attempts[attempt.attempt_index] = attempt
        context.budget.count(attempt)
    else:  # somebody else works on this run as well: what was saved first counts
        context.budget.drop()
        saved = records.attempts(context.run.id, desk.sample.id, desk.repeat)
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
    task = context.harness.task
    instructions, temperature = render_instructions(context, desk), task.temperature(attempt_index)
    situation = Situation(instructions, desk.in_order, temperature, task.watching)
    desk.move = next_move(context.policy, situation)
    return {"attempt_index": attempt_index}


def record(state: AttemptState, context: AttemptContext) -> AttemptState:
    """Write how the sample ended; its best attempt is the answer."""
    desk = context.desk(state)
    result = sample_result(desk.in_order, desk.sample.split)
    if context.records.save_sample_result(result):
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
