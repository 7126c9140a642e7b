"""``Loop`` used wrongly: one UsageError that says how to mend the call, never another library's exception."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from loopeng import Loop
from loopeng.errors import TaskError, UsageError
from tests.loopeng.test_api import SPECS, TEMPLATE, answer, make_task


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Loop]:
    with Loop.open(tmp_path / "loop.db", engine=answer) as loop:
        yield loop


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"max_attempts": 0}, "max_attempts must be at least 1, not 0"),
        ({"max_attempts": "3"}, "max_attempts must be a whole number"),
        ({"retry": "escalte"}, r"retry must be .*did you mean 'escalate'"),
        ({"engine": {"max_tokens": 0}}, "max_tokens must be at least 1"),
        ({"seed": "x"}, "seed must be a whole number"),
        ({"prompt_name": ""}, "name: must not be empty"),
        ({"template": 7}, "template must be text"),
        ({"inputs": {"prodct": "mug"}}, r"needs 'product', which the input lacks \(did you mean 'prodct'"),
        ({"inputs": "mug"}, "inputs are a mapping"),
        ({"inputs": {1: "mug"}}, "inputs are a mapping"),
        ({"inputs": {"product": "mug", "rules": "x"}}, "an input cannot be called 'rules'"),
        ({"evaluators": ["short"]}, "'short' is no evaluator; give"),
        ({"evaluators": "short"}, "as a list, not as one str"),
        ({"evaluators": SPECS[0]}, "as a list, not as one dict"),
        ({"evaluators": str.isupper}, "as a list, not as one method_descriptor"),
        ({"evaluators": []}, "at least one evaluator"),
        (
            {"evaluators": [{"id": "names", "type": "contains", "value": "{{ colour }}"}]},
            r"evaluator 'names' uses {{ colour }}, which the input lacks \(there is: product\)",
        ),
        ({"evaluators": [{"id": "is", "type": "contains", "value": "{{ target }}"}]}, "uses {{ target }}"),
    ],
)
def test_what_cannot_be_attempted_is_refused_before_any_work(loop: Loop, changes: dict[str, Any], says: str) -> None:
    call = {"prompt_name": "d", "inputs": {"product": "mug"}, "evaluators": SPECS, "template": TEMPLATE, **changes}
    with pytest.raises(UsageError, match=says):
        loop.attempt(**call)
    assert loop.store.runs() == []


def test_a_template_that_cannot_be_read_is_not_adopted(loop: Loop) -> None:
    with pytest.raises(TaskError, match="cannot be read"):
        loop.attempt("d", {"product": "mug"}, evaluators=SPECS, template="{{ product")
    assert loop.store.prompt_names() == []


CALLS: list[Callable[[Loop], object]] = [
    lambda loop: loop.run(make_task()),
    lambda loop: loop.attempt("d", {"product": "mug"}, evaluators=SPECS, template=TEMPLATE),
    lambda loop: loop.propose(make_task()),
    lambda loop: loop.queue(),
    lambda loop: loop.approve("p", by="ana", seen="0" * 8),
    lambda loop: loop.edit("p", by="ana", seen="0" * 8, rules=["x"]),
    lambda loop: loop.reject("p", by="ana", seen="0" * 8, reason=""),
    lambda loop: loop.rollback("d", by="ana", reason=""),
    lambda loop: loop.graph(make_task()),
    lambda loop: loop.store,
]


@pytest.mark.parametrize("call", CALLS)
def test_a_closed_loop_says_so(tmp_path: Path, call: Callable[[Loop], object]) -> None:
    """The connection pool would open the file again without a word."""
    loop = Loop.open(tmp_path / "loop.db", engine=answer)
    loop.close()
    loop.close()
    with pytest.raises(UsageError, match=r"this loop is closed: open .*loop\.db again"):
        call(loop)


def test_the_graph_describes_its_input(loop: Loop) -> None:
    """Tools that offer a graph to people ask for its schema; with Python 3.11's own TypedDict pydantic refuses."""
    for graph in (loop.graph(), loop.graph(make_task())):
        assert set(graph.get_input_jsonschema()["properties"]) == {"sample_id", "repeat", "inputs"}
        assert "verdict" in graph.get_output_jsonschema()["properties"]
