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


@pytest.mark.parametrize(
    ("tests", "labels"),
    [
        (
            "assert f(1) == 2\nnp.testing.assert_equal(f(2), 4)",
            ["assert f(1) == 2", "np.testing.assert_equal(f(2), 4)"],
        ),
        ("def near(x):\n    assert abs(x) < 1\nresult = f(1)\nnear(result)", ["near(result)"]),
        ("data = []\nfor i in range(3):\n    data.append(i)\nassert f(data) == 3", ["assert f(data) == 3"]),
        ("random.seed(0)\nassert 1 == 1\nassert f(1)\nprint(f(2))", ["assert f(1)"]),
        ("ok = f(1) == 2\nif not ok:\n    raise AssertionError('no')", ["if not ok: raise AssertionError('no')"]),
        ("with pytest.raises(ValueError):\n    f(-1)", ["with pytest.raises(ValueError): f(-1)"]),
    ],
)
def test_what_asserts_is_a_test_and_nothing_else_is(tests: str, labels: list[str]) -> None:
    for text, entry_point in ((tests, "f"), (f"def check(f):\n    {tests.replace(chr(10), chr(10) + '    ')}", "f")):
        assert [step.label for step in plan_tests(text, entry_point=entry_point).steps] == labels


def test_what_stands_after_the_last_assertion_is_run_with_it() -> None:
    plan = plan_tests("def check(f):\n    assert f(1) == 2\n    verify(3)\ncheck(f)", entry_point="f")
    assert [step.source for step in plan.steps] == ["assert f(1) == 2\nverify(3)"]
    assert "check" not in plan.setup


@pytest.mark.parametrize(
    "tests",
    [
        "assert f(1) == 2\ndef test_more():\n    assert f(2) == 4",
        "def test_more():\n    assert f(2) == 4\nassert f(1) == 2",
        "def check(f):\n    assert f(1) == 2\n    def more():\n        assert f(2) == 4",
        "class TestF(unittest.TestCase):\n    def test_f(self):\n        self.assertEqual(f(1), 2)\nassert f(1) == 2",
    ],
)
def test_an_assertion_that_nothing_runs_is_refused(tests: str) -> None:
    with pytest.raises(ValueError, match="never call it"):
        plan_tests(tests, entry_point="f")


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


def run(code: str, prompt: str) -> dict[str, object]:
    namespace: dict[str, object] = {}
    for program in assemble(code, prompt, "f"):
        exec(compile(program, "x", "exec", dont_inherit=True), namespace)
    return namespace


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
        "from __future__ import annotations\n\n\ndef f(x: Number) -> Number:\n    return 2 * x",
    ],
)
def test_an_answer_becomes_the_program_that_was_meant(code: str) -> None:
    namespace = run(code, PROMPT)
    assert namespace["f"](21) == 42  # type: ignore[operator]


@pytest.mark.parametrize("code", ["def g(x):\n    return 2 * x", "x = 3", ""])
def test_the_prompt_alone_never_stands_in_for_an_answer(code: str) -> None:
    try:
        namespace = run(code, PROMPT)
    except SyntaxError:
        return
    assert "f" not in namespace or namespace["f"](21) is None  # type: ignore[operator]


def test_text_that_is_no_program_stays_a_syntax_error() -> None:
    for prompt in ("", PROMPT):
        with pytest.raises(SyntaxError):
            run("I cannot do that.", prompt)
