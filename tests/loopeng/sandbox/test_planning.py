"""Tests as steps, and what an answer becomes as a program."""

from __future__ import annotations

import pytest

from loopeng.sandbox.assembling import assemble
from loopeng.sandbox.planning import plan_tests

CHECK = """
METADATA = {}

def check(candidate):
    import math
    assert True, "for the reader"
    x = 2
    assert candidate(x) == 4
    for n in range(3):
        assert candidate(n) == 2 * n
    assert math.isclose(candidate(1.5), 3)
    print("done")
"""


def test_each_assertion_is_a_step_with_what_stands_before_it() -> None:
    plan = plan_tests(CHECK, entry_point="double")
    assert [step.label.split("\n")[0][:23] for step in plan.steps] == [
        "assert candidate(x) == ",
        "for n in range(3): asse",
        "assert math.isclose(can",
    ]
    assert plan.steps[0].source.startswith("import math\n") and "x = 2" in plan.steps[0].source
    assert plan.names == {"candidate": "double", "double": "double"}
    assert "METADATA" in plan.setup


def test_a_check_that_returns_is_one_step() -> None:
    plan = plan_tests("def check(f):\n    if f(1) == 2:\n        return\n    assert False", entry_point="g")
    assert [step.label for step in plan.steps] == ["check(f)"]


def test_lines_find_the_functions_they_call() -> None:
    plan = plan_tests("from math import sqrt\ndef near(a): return a\nassert near(sqrt(f(4))) == g(len([1]))")
    assert sorted(plan.names) == ["f", "g"]


def test_a_function_may_be_called_like_a_built_in_one() -> None:
    assert list(plan_tests("assert sum(10, 15) == 6").names) == ["sum"]


def test_a_standard_module_that_is_only_used_is_imported() -> None:
    plan = plan_tests("x = [1]\nassert f(x.copy()) == sys.maxsize + nowhere.value")
    assert plan.setup.split() == ["import", "sys"]


@pytest.mark.parametrize(
    ("tests", "message"),
    [
        ("assert f(1", "the tests are no Python"),
        ("x = 1", "no assertion that calls a function"),
        ("assert 1 == 1", "no assertion that calls a function"),
        ("def check(candidate):\n    assert candidate(1)", "entry_point"),
    ],
)
def test_tests_that_test_nothing_are_refused(tests: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan_tests(tests)


PROMPT = 'import math\n\n\ndef f(x):\n    """Twice x."""\n'


@pytest.mark.parametrize(
    "code",
    [
        "    return 2 * x\n",
        "return 2 * x",
        "y = 2 * x\n    return y",
        "\n\n    return 2 * x\n\n\ndef other():\n    return 1\n",
        "def f(x):\n    return 2 * x",
        "def f(x):\n    return math.floor(2 * x)",
        "Here it is:\n\ndef f(x):\n    return 2 * x",
        "f = lambda x: 2 * x",
        "    # double\r\n    return 2 * x\r\n",
    ],
)
def test_an_answer_becomes_the_program_that_was_meant(code: str) -> None:
    namespace: dict[str, object] = {}
    exec(assemble(code, PROMPT, "f"), namespace)
    assert namespace["f"](21) == 42  # type: ignore[operator]


@pytest.mark.parametrize("code", ["def g(x):\n    return 2 * x", "x = 3", ""])
def test_the_prompt_alone_never_stands_in_for_an_answer(code: str) -> None:
    namespace: dict[str, object] = {}
    try:
        exec(assemble(code, PROMPT, "f"), namespace)
    except SyntaxError:
        return
    assert "f" not in namespace or namespace["f"](21) is None  # type: ignore[operator]


def test_text_that_is_no_program_stays_a_syntax_error() -> None:
    for prompt in ("", PROMPT):
        with pytest.raises(SyntaxError):
            compile(assemble("I cannot do that.", prompt, "f"), "x", "exec")
