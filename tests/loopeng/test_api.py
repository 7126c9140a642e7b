"""``Loop``: the public Python surface, as programs use it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from loopeng import AgentContext, Loop, TextReply, TextRequest, evaluator, load_task
from loopeng.engines.scripted import ScriptedEngine
from loopeng.errors import EngineError, NotFoundError, RevisionMismatchError, TaskError, UsageError
from loopeng.schema import EvalResult, Task
from loopeng.task_file import task_from_dict

LONG = "This is a very fine product that everyone will want to have. Buy it today, it is great."
SHORT = "A fine thing."
Messages = Sequence[Mapping[str, str]]

SPECS = [{"id": "short", "type": "length", "max_words": 5}]
TEMPLATE = "Describe {{ product }}{{ rules }}"


def answer(messages: Messages, params: Mapping[str, Any]) -> str:
    """Too long unless told not to be."""
    return SHORT if "at most" in messages[-1]["content"] else LONG


def answer_request(request: TextRequest) -> str:
    return SHORT if "at most" in request.messages[-1].content else LONG


def make_task(**changes: Any) -> Task:
    samples = [
        {"id": f"p{index:02d}", "product": f"thing {index}", "split": ("reflect", "gate", "holdout")[index % 3]}
        for index in range(15)
    ]
    keys = {
        "version": 1,
        "name": "shop",
        "prompt": {"name": "describe", "template": TEMPLATE},
        "dataset": {"samples": samples, "id": "id", "split": "split"},
        "evaluators": SPECS,
        "loop": {"max_attempts": 1, "retry": "critique"},
    }
    return task_from_dict({**keys, **changes})


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Loop]:
    with Loop.open(tmp_path / "loop.db", engine=answer) as loop:
        yield loop


@pytest.fixture
def replayable(tmp_path: Path) -> Iterator[Loop]:
    """With an engine another process could make, so that the gate runs."""
    with Loop.open(tmp_path / "loop.db", engine=ScriptedEngine(answer_request, reference="{}")) as loop:
        yield loop


def test_run_and_approve(replayable: Loop) -> None:
    task = make_task()
    result = replayable.run(task)
    assert (result.passed, result.score, len(result.samples)) == (False, 0.0, 15)
    assert [pattern.category for pattern in result.failures] == ["length.too_long"]
    assert result.exit_code == 3
    assert result.run.status == "finished"
    assert result.summary.attempts == 15
    (card,) = replayable.queue()
    assert card.id == result.proposals[0].id
    assert "+- Use at most 4 words." in card.diff
    assert card.gate is not None
    assert card.gate.summary == "0/5 -> 5/5 first attempts pass (5 fixed, 0 broken)"
    with pytest.raises(UsageError, match="accept_untested"):
        replayable.approve(card.id, by="ana", seen=card.text_hash)
    outcome = replayable.approve(card.id, by="ana", seen=card.text_hash, accept_untested=True)
    assert outcome.version is not None
    assert replayable.queue() == []
    better = replayable.run(task)
    assert (better.passed, better.score, better.failures, better.proposals) == (True, 1.0, (), ())
    back = replayable.rollback("describe", by="ana", reason="for the test")
    assert back.number == 1


def test_a_live_engine_is_never_replayed(loop: Loop) -> None:
    """The gate could not be repeated by another process, and says so instead of counting."""
    loop.run(make_task())
    (card,) = loop.queue()
    assert card.gate is not None
    assert card.gate.verdict == "not_replayable"


def test_edit_and_reject(replayable: Loop) -> None:
    replayable.run(make_task())
    (card,) = replayable.queue()
    with pytest.raises(RevisionMismatchError):
        replayable.reject(card.id, by="ana", seen="0" * 64, reason="no")
    outcome = replayable.edit(card.id, by="ana", seen=card.text_hash, rules=["Use at most three words."])
    assert (outcome.proposal.revision, outcome.proposal.state) == (2, "testing")
    assert [(step.before.state, step.after.state) for step in replayable.work()] == [("testing", "pending")]
    (edited,) = replayable.queue()
    assert edited.gate is not None
    assert edited.gate.pairs.fixed == 5
    replayable.reject(edited.id, by="ana", seen=edited.text_hash, reason="too strict")
    assert replayable.queue() == []


def test_snooze_and_rebase(replayable: Loop) -> None:
    task = make_task()
    replayable.run(task)
    (card,) = replayable.queue()
    assert replayable.snooze(card.id, by="ana", for_="2d").proposal.snoozed_until is not None
    assert [each.proposal.state for each in replayable.queue()] == ["snoozed"]
    with pytest.raises(UsageError, match="either until or for_"):
        replayable.snooze(card.id, by="ana")
    replayable.store.adopt_template("describe", "Say what it is: {{ product }}{{ rules }}", by="file")
    assert replayable.queue() == []
    outcome = replayable.rebase(card.id, by="ana", now=True)
    assert (outcome.proposal.state, outcome.proposal.revision) == ("pending", 2)
    assert replayable.work() == []


def test_run_from_a_path_without_improvement(tmp_path: Path, loop: Loop) -> None:
    (tmp_path / "task.yaml").write_text(
        "version: 1\nname: one\nprompt: {name: p, template: '{{ x }}{{ rules }}'}\n"
        "dataset: {samples: [{x: a}]}\nevaluators: [{id: short, type: length, max_words: 5}]\n"
    )
    for path in (tmp_path, tmp_path / "task.yaml", str(tmp_path / "task.yaml")):
        assert loop.run(path, improve=False).proposals == ()
    assert loop.run(load_task(tmp_path), limit=1).summary.total.samples == 1
    with pytest.raises(NotFoundError, match="no unfinished run"):
        loop.run(tmp_path, resume=True)
    with pytest.raises(TaskError):
        loop.run(tmp_path / "other.yaml")


def test_any_callable_is_an_engine(tmp_path: Path) -> None:
    async def slow(messages: Messages, params: Mapping[str, Any]) -> str:
        await asyncio.sleep(0)
        return f"{params['max_tokens']} {params['seed'] > 0}"

    class Engine:
        def __call__(self, messages: Messages, params: Mapping[str, Any]) -> str:
            return messages[-1]["content"]

    for engine, expected in ((slow, "9 True"), (Engine(), "Describe mug")):
        with Loop.open(tmp_path / "loop.db", engine=engine) as loop:
            result = loop.attempt(
                "describe", {"product": "mug"}, evaluators=SPECS, template=TEMPLATE, engine={"max_tokens": 9}
            )
            assert result.text == expected
    with pytest.raises(UsageError, match="is no engine"), Loop.open(tmp_path / "loop.db", engine="gpt") as loop:  # type: ignore[arg-type]
        loop.attempt("describe", {"product": "mug"}, evaluators=SPECS)


def test_an_agent_of_the_users_own(tmp_path: Path) -> None:
    def agent(context: AgentContext) -> str:
        reply: TextReply = context.engine.generate(context.messages)
        return reply.text.upper()

    with Loop.open(tmp_path / "loop.db", engine=lambda messages, params: "a mug", agent=agent) as loop:
        assert loop.attempt("d", {"x": 1}, evaluators=SPECS, template="{{ x }}").text == "A MUG"


def test_attempt_retries_and_keeps_the_best(loop: Loop) -> None:
    result = loop.attempt("describe", {"product": "mug"}, evaluators=SPECS, template=TEMPLATE)
    assert (result.text, result.passed, result.score) == (SHORT, True, 1.0)
    assert [attempt.verdict for attempt in result.attempts] == ["fail", "pass"]
    once = loop.attempt("describe", {"product": "mug"}, evaluators=SPECS, max_attempts=1)
    assert (once.text, once.passed) == (LONG, False)
    assert len(loop.store.runs(kind="live")) == 2
    assert loop.store.runs(kind="suite") == []
    with pytest.raises(NotFoundError, match="other"):
        loop.attempt("other", {}, evaluators=SPECS)


def test_attempt_uses_the_head_with_its_rules(replayable: Loop) -> None:
    replayable.run(make_task())
    (card,) = replayable.queue()
    replayable.approve(card.id, by="ana", seen=card.text_hash, accept_untested=True)
    result = replayable.attempt("describe", {"product": "mug"}, evaluators=SPECS)
    assert (result.text, len(result.attempts)) == (SHORT, 1)
    assert "at most 4 words" in result.attempts[0].messages[-1].content


@evaluator("api_test_no_full_stop")
def no_full_stop(text: str) -> bool:
    return "." not in text


def test_evaluators_may_be_specs_functions_or_objects(loop: Loop) -> None:
    class Loud:
        id, categories = "loud", frozenset({"loud.quiet"})

        def evaluate(self, sample: Any, attempt: Any, context: Any) -> EvalResult:
            passed = attempt.text.isupper()
            return EvalResult(
                evaluator=self.id, passed=passed, score=float(passed), category=None if passed else "loud.quiet"
            )

    kinds = [*SPECS, no_full_stop, lambda text: len(text) > 3, Loud()]
    result = loop.attempt("describe", {"product": "mug"}, evaluators=kinds, max_attempts=1, template=TEMPLATE)
    assert [each.evaluator for each in result.attempts[0].results] == ["short", "no_full_stop", "function", "loud"]
    with pytest.raises(UsageError, match="at least one evaluator"):
        loop.attempt("d", {"x": 1}, template="{{ x }}", evaluators=[])
    with pytest.raises(TaskError, match="unknown evaluator type"):
        loop.attempt("describe", {"product": "mug"}, evaluators=[{"id": "x", "type": "lenght"}])


def test_what_breaks_is_no_answer(tmp_path: Path) -> None:
    def broken(messages: Messages, params: Mapping[str, Any]) -> str:
        raise ConnectionError("no route")

    def raises(text: str) -> bool:
        raise ZeroDivisionError

    with Loop.open(tmp_path / "loop.db", engine=broken) as loop, pytest.raises(EngineError, match="no route"):
        loop.attempt("d", {"x": 1}, evaluators=SPECS, template="{{ x }}")
    with Loop.open(tmp_path / "loop.db", engine=answer) as loop:
        result = loop.attempt("d", {"x": 1}, evaluators=[raises], max_attempts=1)
    assert (result.text, result.passed, result.score) == (LONG, None, None)


def test_from_an_event_loop(loop: Loop) -> None:
    async def program() -> None:
        one, two = await asyncio.gather(
            loop.aattempt("describe", {"product": "mug"}, evaluators=SPECS, template=TEMPLATE),
            loop.aattempt("describe", {"product": "cup"}, evaluators=SPECS, template=TEMPLATE),
        )
        assert (one.passed, two.passed) == (True, True)
        result = await loop.arun(make_task(), improve=False)
        assert result.summary.attempts == 15

    asyncio.run(program())


def test_the_graph_is_the_attempt_graph(loop: Loop) -> None:
    assert {"load", "generate", "evaluate", "decide", "retry", "record"} <= set(loop.graph().get_graph().nodes)
    graph = loop.graph(make_task(loop={"max_attempts": 2, "retry": "critique"}))
    outcome = graph.invoke({"inputs": {"product": "mug"}})
    assert (outcome["text"], outcome["verdict"], outcome["num_attempts"]) == (SHORT, "pass", 2)


def test_progress_comes_as_events(loop: Loop) -> None:
    seen: list[str] = []
    loop.run(make_task(), limit=2, improve=False, on_event=lambda event: seen.append(type(event).__name__))
    assert seen == ["RunStarted", *["AttemptFinished", "SampleFinished"] * 2, "RunFinished"]


def test_an_improvement_that_cannot_work_leaves_the_run(loop: Loop) -> None:
    task = make_task()
    broken = task.improve.model_copy(update={"reflector": "nowhere:reflector"})  # gone since the task was loaded
    result = loop.run(task.model_copy(update={"improve": broken}))
    assert result.summary.total.samples == 15
    assert isinstance(result.improve_error, UsageError | TaskError)
    assert result.exit_code == 3
