"""The ATTEMPT graph on a real database with a scripted engine."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypedDict

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph

from loopeng.attempt.events import AttemptFinished, EngineRetried, SampleFinished
from loopeng.attempt.graph import attempt_graph, live_graph
from loopeng.attempt.seeds import attempt_seed
from loopeng.errors import BudgetStop, EngineError, RequestRefusedError, UsageError
from loopeng.ports import AgentContext, AgentResult, EvaluationContext
from loopeng.runner import run_suite
from loopeng.schema import Attempt, EvaluatorSpec, Sample, Usage
from loopeng.schema.task import BudgetSpec, EngineSpec
from loopeng.store import LoopStore
from tests.loopeng.attempt.making import LONG, SHORT, Judge, Script, make_context, make_harness, make_task


def play(store: LoopStore, script: Script, **options: Any) -> tuple[list, dict]:
    """One sample through the graph: its attempts and the outcome."""
    context = make_context(make_harness(store, script, **options))
    outcome = attempt_graph().invoke({"sample_id": "s0"}, context=context)
    return store.attempts(context.run.id), outcome


def test_fail_critique_pass(store: LoopStore) -> None:
    script = Script(LONG, SHORT)
    attempts, outcome = play(store, script)
    assert [(a.verdict, a.policy, a.temperature) for a in attempts] == [("fail", "first", 0), ("pass", "critique", 0)]
    assert outcome == {
        "run_id": attempts[0].run_id,
        "sample_id": "s0",
        "repeat": 0,
        "verdict": "pass",
        "score": 1.0,
        "text": SHORT,
        "num_attempts": 2,
    }
    (result,) = store.sample_results(attempts[0].run_id)
    assert (result.first_verdict, result.verdict, result.best_attempt_index, result.split) == (
        "fail",
        "pass",
        1,
        "reflect",
    )
    assert [request.seed for request in script.requests] == [attempt_seed(0, "s0", 0, 0), attempt_seed(0, "s0", 1, 0)]
    assert [a.seed for a in attempts] == [request.seed for request in script.requests]
    assert attempts[0].messages[0].content == "Describe mug 0"


def test_the_best_attempt_is_kept_not_the_last(store: LoopStore) -> None:
    evaluators = (
        EvaluatorSpec(id="short", type="length", max_words=2),
        EvaluatorSpec(id="a", type="contains", value="a"),
    )
    script = Script("a b c", "x y z", "p q r s")
    attempts, outcome = play(store, script, task=make_task(evaluators=evaluators))
    assert [a.verdict for a in attempts] == ["fail"] * 3
    assert outcome["text"] == "a b c" and outcome["num_attempts"] == 3
    assert store.sample_results(attempts[0].run_id)[0].best_attempt_index == 0


def test_reference_texts_are_earlier_attempts_latest_first_then_the_callers(store: LoopStore) -> None:
    script = Script("one two three four five six", "a b c d e f", "g h i j k l")
    context = make_context(make_harness(store, script, make_task(max_attempts=3)))
    object.__setattr__(context, "references", {"s0": ["from the suite", "a b c d e f"], "s1": ["of another sample"]})
    attempt_graph().invoke({"sample_id": "s0"}, context=context)
    assert [request.reference_texts for request in script.requests] == [
        ("from the suite", "a b c d e f"),
        ("one two three four five six", "from the suite", "a b c d e f"),
        ("a b c d e f", "one two three four five six", "from the suite"),
    ]


def test_sampling_parameters_of_the_task_reach_the_engine(store: LoopStore) -> None:
    script = Script(SHORT)
    spec = EngineSpec(
        kind="scripted", max_tokens=7, temperature=0.6, top_k=3, top_p=0.5, repetition_penalty=1.1, stop=("\n",)
    )
    play(store, script, task=make_task(engine=spec))
    (request,) = script.requests
    values = (
        request.max_tokens,
        request.temperature,
        request.top_k,
        request.top_p,
        request.repetition_penalty,
        request.stop,
    )
    assert values == (7, 0.6, 3, 0.5, 1.1, ("\n",))


def test_a_repeated_answer_is_not_evaluated_again_and_escalates(store: LoopStore) -> None:
    judge = Judge()
    script = Script("no", "no", "no", "ok")
    attempts, outcome = play(store, script, task=make_task(max_attempts=4), evaluators=[judge])
    assert judge.num_calls == 2  # "no" once, "ok" once
    assert [a.duplicate_of for a in attempts] == [None, 0, 0, None]
    assert [a.policy for a in attempts] == ["first", "critique", "resample", "resample"]
    assert [a.temperature for a in attempts] == [0, 0, 0.4, 0.8]
    assert attempts[1].results == attempts[0].results and attempts[1].score == attempts[0].score == 0.25
    assert outcome["verdict"] == "pass"


def test_a_repeated_answer_is_measured_again_where_time_tokens_or_steps_count(store: LoopStore) -> None:
    def agent(context: AgentContext) -> AgentResult:
        spent = Usage(prompt_tokens=1, generated_tokens=10 - context.attempt_index)
        return AgentResult(text="same", trajectory=[{"name": "step"}] * context.attempt_index, usage=spent)

    few = {"id": "few", "type": "tokens", "max_generated": 9}
    steps = {"id": "steps", "type": "tool_calls", "value": ["step", "step"]}
    task = make_task(max_attempts=4)
    attempts, outcome = play(store, Script(), task=task, agent=agent, evaluators=[few, steps])
    assert [a.duplicate_of for a in attempts] == [None, 0, 0]
    assert [[each.passed for each in a.results] for a in attempts] == [[False, False], [True, False], [True, True]]
    assert outcome["verdict"] == "pass"


def test_of_a_repeated_answer_only_what_may_differ_is_judged_again(store: LoopStore) -> None:
    """The judge reads the text alone and costs tokens; a function that gets the attempt may look at its steps."""

    def agent(context: AgentContext) -> AgentResult:
        return AgentResult(text="fine", trajectory=[{"name": "step"}] * context.attempt_index)

    def two_steps(sample: Sample, attempt: Attempt) -> bool:
        return len(attempt.trajectory) == 2

    def later_is_better(sample: Sample, attempt: Attempt, context: EvaluationContext) -> float:
        return len(context.earlier_attempts) / 2

    judge = {"id": "tone", "type": "llm_judge", "criteria": "It is polite.", "reasoning": False}
    script = Script('{"verdicts": {"criteria": "pass"}}')
    evaluators = [two_steps, judge, later_is_better]
    attempts, outcome = play(store, script, task=make_task(max_attempts=4), agent=agent, evaluators=evaluators)
    assert [[each.passed for each in a.results] for a in attempts] == [
        [False, True, False],
        [False, True, True],
        [True] * 3,
    ]
    assert [[each.score for each in a.results][2] for a in attempts] == [0, 0.5, 1]
    assert [a.duplicate_of for a in attempts] == [None, 0, 0] and outcome["verdict"] == "pass"
    assert len(script.requests) == 1, "the judge's word on the same text is carried over"
    assert ["judge_usage" in a.results[1].metadata for a in attempts] == [True, False, False], "and costs nothing"
    assert store.judge_usage(attempts[0].run_id)["tone"].num_calls == 1


def test_an_answer_given_before_is_compared_again_with_the_one_before_it(store: LoopStore) -> None:
    """X, Y, X: the second X stands against Y, where the first had to stand against the target."""
    better = {"id": "better", "type": "pairwise", "against": "Z", "against_earlier": True, "reasoning": False}
    texts = iter(["X", "Y", "X"])
    script = Script(*(f'{{"better": "{choice}"}}' for choice in ("B", "A", "B", "A", "A", "B")))
    attempts, _ = play(store, script, agent=lambda _: next(texts), evaluators=[better])
    assert [(a.verdict, a.duplicate_of) for a in attempts] == [("fail", None), ("fail", None), ("pass", 0)]
    assert store.judge_usage(attempts[0].run_id)["better"].num_calls == 6, "all of them were asked, and cost something"


def test_the_evaluators_reason_never_reaches_the_engine(store: LoopStore) -> None:
    for retry in ("feedback", "critique", "escalate", "resample"):
        script = Script("no", "nope", "never")
        play(
            store,
            script,
            task=make_task(retry=retry, engine=EngineSpec(kind="scripted", temperature=0.5)),
            evaluators=[Judge()],
        )
        assert len(script.requests) == 3
        assert "SECRET" not in "".join(request.model_dump_json() for request in script.requests)


def test_a_broken_evaluator_is_an_error_and_tried_again_never_a_fail(store: LoopStore) -> None:
    attempts, _ = play(store, Script("boom", "ok"), evaluators=[Judge()])
    assert [a.verdict for a in attempts] == ["error", "pass"]
    assert attempts[0].results[0].error == "RuntimeError: judge broke" and attempts[0].score is None
    (result,) = store.sample_results(attempts[0].run_id)
    assert (result.first_verdict, result.verdict) == ("error", "pass")


def test_a_text_that_broke_the_evaluator_is_evaluated_again(store: LoopStore) -> None:
    judge = Judge()
    attempts, _ = play(store, Script("boom", "boom"), task=make_task(max_attempts=2), evaluators=[judge])
    assert judge.num_calls == 2 and [a.duplicate_of for a in attempts] == [None, None]
    assert store.sample_results(attempts[0].run_id)[0].verdict == "error"


def test_infrastructure_errors_are_tried_again_with_the_same_seed_and_are_no_attempts(store: LoopStore) -> None:
    events: list[Any] = []
    script = Script(EngineError("out of steam"), ValueError("odd"), SHORT)
    attempts, _ = play(store, script, on_event=events.append)
    assert [a.verdict for a in attempts] == ["pass"]
    assert len({request.seed for request in script.requests}) == 1 and len(script.requests) == 3
    retried = [event for event in events if isinstance(event, EngineRetried)]
    assert [(event.num_failures, event.error) for event in retried] == [(1, "out of steam"), (2, "ValueError: odd")]
    assert [type(event) for event in events[2:]] == [AttemptFinished, SampleFinished]


def test_an_engine_that_stays_broken_gives_one_attempt_in_error(store: LoopStore) -> None:
    script = Script(EngineError("no such device"))
    attempts, outcome = play(store, script)
    assert len(script.requests) == 3 and outcome["verdict"] == "error" and outcome["text"] == ""
    assert [(a.verdict, a.error, a.results) for a in attempts] == [("error", "no such device", ())]


def test_a_refused_request_is_not_tried_again(store: LoopStore) -> None:
    script = Script(RequestRefusedError("the prompt has 9,000 tokens"))
    attempts, _ = play(store, script)
    assert len(script.requests) == 1 and attempts[0].error == "the prompt has 9,000 tokens"


def test_an_earlier_fail_outranks_a_later_error(store: LoopStore) -> None:
    attempts, outcome = play(store, Script(LONG, EngineError("gone")))
    assert [a.verdict for a in attempts] == ["fail", "error"]
    assert (outcome["verdict"], outcome["text"]) == ("fail", LONG)


def test_a_missing_input_is_one_samples_error(store: LoopStore) -> None:
    samples = (Sample(id="s0", inputs={"colour": "red"}, split="gate"),)
    attempts, outcome = play(store, Script(SHORT), task=make_task(samples))
    assert outcome["verdict"] == "error" and "product" in attempts[0].error and attempts[0].messages == ()


def test_the_agents_exception_text_is_stored(store: LoopStore) -> None:
    def agent(context: AgentContext) -> str:
        raise KeyError("no such tool")

    attempts, _ = play(store, Script(SHORT), agent=agent)
    assert attempts[0].error == "KeyError: 'no such tool'"


def test_keyboard_interrupt_passes_through_and_nothing_is_recorded(store: LoopStore) -> None:
    context = make_context(make_harness(store, Script(LONG, KeyboardInterrupt())))
    with pytest.raises(KeyboardInterrupt):
        attempt_graph().invoke({"sample_id": "s0"}, context=context)
    assert len(store.attempts(context.run.id)) == 1 and store.sample_results(context.run.id) == []


def test_what_an_agent_sees_and_what_is_kept_of_it(store: LoopStore) -> None:
    seen: list[AgentContext] = []

    async def agent(context: AgentContext) -> AgentResult:
        seen.append(context)
        draft = context.engine.generate("draft")
        final = context.engine.generate(context.messages, max_tokens=5)
        return AgentResult(text=final.text, trajectory=[draft.text, {1, 2}.__class__], usage=Usage(prompt_tokens=1))

    script = Script("d", LONG, "d", SHORT)
    attempts, _ = play(store, script, agent=agent)
    assert [(c.attempt_index, c.feedback is None, c.earlier_outputs) for c in seen] == [
        (0, True, ()),
        (1, False, (LONG,)),
    ]
    assert seen[0].input == {"product": "mug 0"} and seen[1].instructions == "Describe mug 0"
    assert [request.max_tokens for request in script.requests[:2]] == [256, 5]
    assert script.requests[1].seed == script.requests[0].seed + 1
    assert attempts[0].usage.generated_tokens == 1 + 8  # both calls counted, the smaller report ignored
    assert attempts[0].trajectory == ["d", "<class 'set'>"]
    assert attempts[0].fingerprint == "scripted:" + attempts[0].fingerprint.split(":")[1]


@pytest.mark.parametrize("bad", [None, 7, AgentResult(text=3)], ids=repr)  # type: ignore[arg-type]
def test_an_agent_that_returns_no_text_is_in_error(store: LoopStore, bad: object) -> None:
    attempts, _ = play(store, Script(SHORT), agent=lambda context: bad)
    assert attempts[0].verdict == "error" and "string" in attempts[0].error


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (AgentResult(text="ok", finish_reason=5), "the agent's finish_reason is 5: Input should be a valid string"),  # type: ignore[arg-type]
        (AgentResult(text="ok", token_ids=("a",)), "the agent's token_ids.0 is 'a'"),  # type: ignore[arg-type]
        (AgentResult(text="ok", fingerprint=b"x\xff"), "the agent's fingerprint is"),  # type: ignore[arg-type]
        (SystemExit(0), "SystemExit: 0"),
        (ValueError("half a character: \udc80"), "ValueError: half a character: ?"),
    ],
)
def test_what_no_row_can_hold_is_one_samples_error(store: LoopStore, result: Any, message: str) -> None:
    """It would end the run at this sample, and every resume of it again."""

    def agent(context: AgentContext) -> AgentResult:
        if isinstance(result, BaseException):
            raise result
        return result

    summary = run_suite(make_harness(store, Script("ok"), make_task(2), agent=agent))
    assert summary.run.status == "finished" and summary.total.errors == 2
    assert all((attempt.error or "").startswith(message) for attempt in store.attempts(summary.run.id))


def test_an_agent_that_changes_its_input_changes_nobody_elses(store: LoopStore) -> None:
    def agent(context: AgentContext) -> str:
        context.input["tags"].append("mine")
        return "ok"

    sample = Sample(id="s0", inputs={"product": "mug", "tags": ["blue"]}, split="reflect")
    run_suite(make_harness(store, Script("ok"), make_task((sample,)), agent=agent))
    assert sample.inputs["tags"] == ["blue"]


def test_text_that_no_database_can_hold_is_mended(store: LoopStore) -> None:
    attempts, _ = play(store, Script("ok \ud800 x"))
    assert attempts[0].text == "ok ? x"


def test_load_goes_on_where_the_rows_end(store: LoopStore) -> None:
    """The same rows, whether the sample was made in one go or its process ended after any attempt."""
    whole, _ = play(store, Script(LONG, LONG + " i", "x"))
    for stop_after in (1, 2):
        context = make_context(
            make_harness(store, Script(LONG, LONG + " i", "x")), limits=BudgetSpec(attempts=stop_after)
        )
        with pytest.raises(BudgetStop):
            attempt_graph().invoke({"sample_id": "s0"}, context=context)
        fresh = make_context(make_harness(store, Script(*[LONG, LONG + " i", "x"][stop_after:])))
        object.__setattr__(fresh, "run", context.run)
        attempt_graph().invoke({"sample_id": "s0"}, context=fresh)
        parts = store.attempts(context.run.id)
        volatile = {"run_id": True, "created_at": True, "latency_s": True, "results": {"__all__": {"latency_s"}}}
        assert [a.model_dump(exclude=volatile) for a in parts] == [a.model_dump(exclude=volatile) for a in whole]


def test_every_node_may_run_twice(store: LoopStore) -> None:
    from loopeng.attempt import nodes

    script = Script(LONG, SHORT)
    context = make_context(make_harness(store, script))
    state: Any = {"sample_id": "s0"}
    names: list[Callable] = [nodes.load, nodes.generate, nodes.evaluate, nodes.decide]
    for step in names:
        state |= step(dict(state), context) or {}
        if step is not nodes.generate:
            state |= step(dict(state), context) or {}
    assert state["next_step"] == "retry"
    once = nodes.retry(dict(state), context)
    assert once == nodes.retry(dict(state), context) == {"attempt_index": 1}
    state |= once
    for step in names[1:]:
        state |= step(dict(state), context) or {}
    assert nodes.record(dict(state), context) == nodes.record(dict(state), context)
    assert len(store.attempts(context.run.id)) == 2 and len(store.sample_results(context.run.id)) == 1


def test_ainvoke_runs_the_engine_in_a_thread(store: LoopStore) -> None:
    threads: list[str] = []

    def replies(request: object) -> str:
        threads.append(threading.current_thread().name)
        return SHORT

    context = make_context(make_harness(store, replies))

    async def main() -> list[dict]:
        return [await attempt_graph().ainvoke({"sample_id": f"s{i}"}, context=context) for i in range(2)]

    outcomes = asyncio.run(main())
    assert [outcome["verdict"] for outcome in outcomes] == ["pass", "pass"]
    assert "MainThread" not in threads


def test_a_context_is_needed(store: LoopStore) -> None:
    with pytest.raises(UsageError, match="live_graph"):
        attempt_graph().invoke({"sample_id": "s0"})


class AppState(TypedDict, total=False):
    inputs: dict[str, Any]
    text: str
    verdict: str
    run_id: str
    shouted: str


def app(store: LoopStore, script: Script) -> Any:
    graph = StateGraph(AppState, context_schema=dict)
    graph.add_node("attempt", live_graph(make_harness(store, script)))
    graph.add_node("shout", lambda state: {"shouted": state["text"].upper()})
    graph.add_edge(START, "attempt")
    graph.add_edge("attempt", "shout")
    graph.add_edge("shout", END)
    return graph.compile(checkpointer=InMemorySaver())


def test_a_node_in_another_graph_with_a_context_and_checkpointer_of_its_own(store: LoopStore) -> None:
    graph = app(store, Script(LONG, SHORT))
    config = {"configurable": {"thread_id": "1"}}
    first = graph.invoke({"inputs": {"product": "kettle"}}, config, context={"theirs": 1})
    assert (first["verdict"], first["text"], first["shouted"]) == ("pass", SHORT, "SHORT ONE")
    second = asyncio.run(graph.ainvoke({"inputs": {"product": "kettle"}}, config))
    assert second["run_id"] != first["run_id"]
    runs = store.runs(kind="live")
    assert {run.status for run in runs} == {"finished"} and len(runs) == 2
    assert store.attempts(first["run_id"])[0].messages[0].content == "Describe kettle"


def test_the_live_graph_needs_inputs_or_a_known_sample(store: LoopStore) -> None:
    graph = live_graph(make_harness(store, Script(SHORT)))
    assert graph.invoke({"sample_id": "s1"})["sample_id"] == "s1"
    with pytest.raises(UsageError, match="inputs"):
        graph.invoke({"sample_id": "nobody"})


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), RuntimeError("the program's own callback broke")])
def test_what_ends_a_live_call_ends_its_run(store: LoopStore, stop: BaseException) -> None:
    """Nobody resumes a live run, so it must not say "running" for ever, nor its context stay in memory."""

    def on_event(event: object) -> None:
        raise stop

    with pytest.raises(type(stop)):
        live_graph(make_harness(store, Script(SHORT), on_event=on_event)).invoke({"inputs": {"product": "kettle"}})
    (run,) = store.runs(kind="live")
    assert (run.status, run.stop_reason) == ("interrupted", f"{type(stop).__name__}: {stop}")


def test_the_live_graph_makes_as_many_attempts_as_the_task_says(store: LoopStore) -> None:
    graph = live_graph(make_harness(store, Script(LONG), make_task(max_attempts=12)))
    assert graph.invoke({"inputs": {"product": "kettle"}})["num_attempts"] == 12


def test_the_state_holds_small_values_only(store: LoopStore) -> None:
    context = make_context(make_harness(store, Script(LONG, SHORT)))
    for values in attempt_graph().stream({"sample_id": "s0"}, context=context, stream_mode="values"):
        assert all(isinstance(value, str | int | float | None) for value in values.values())
