"""unit_tests: code of an answer against tests, and what the model may hear of it."""

from __future__ import annotations

from typing import Any

import pytest

from loopeng.errors import SandboxError
from loopeng.evaluators import build_evaluators, run_evaluators
from loopeng.evaluators.code_feedback import REMEDIES, category_of, reason_of
from loopeng.evaluators.code_text import extract_code, shown_examples
from loopeng.patterns.fingerprint import fingerprint
from loopeng.sandbox import SandboxReport, StepReport, TestStep, choose_tier
from loopeng.schema import EvalResult
from tests.loopeng.evaluators.conftest import make_attempt, make_sample

HIDDEN = "assert f([7]) == 71\nassert f([]) == 0\nassert f([1, 2]) == 3"
PROMPT = 'def f(xs):\n    """Sum.\n    >>> f([1, 2])\n    3\n    """\n'
BOX = {"allow_unsandboxed": True, "timeout_s": 1.0, "memory_mb": 256}


def judge(answer: str, *, said: str = PROMPT, tests: str = HIDDEN, **keys: Any) -> EvalResult:
    spec = {"id": "it", "type": "unit_tests", "tests": "{{ tests }}", "sandbox": BOX, **keys}
    sample = make_sample("def f(xs): return sum(xs)", tests=tests, prompt=said)
    return run_evaluators(build_evaluators([spec]), sample, make_attempt(answer, said))[0]


@pytest.fixture(scope="module", autouse=True)
def _needs_a_sandbox() -> None:
    try:
        choose_tier(allow_unsandboxed=True)
    except SandboxError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(
    ("answer", "category", "score", "feedback"),
    [
        ("def f(xs): return 3", "tests.assert", 1 / 3, "2 of 3 hidden tests failed."),
        (
            "def f(xs): return xs[0] + xs[1]",
            "tests.exception",
            1 / 3,
            "2 of 3 hidden tests failed; the code raised IndexError.",
        ),
        (
            "def f(xs): return sum(xs) + 1",
            "tests.assert",
            0,
            "This example failed: f([1, 2]) returned 4, expected 3. 3 of 3 hidden tests failed.",
        ),
        (
            "def f(xs): return xs[9]",
            "tests.exception",
            0,
            "This example failed: f([1, 2]) raised IndexError, expected 3. "
            "3 of 3 hidden tests failed; the code raised IndexError.",
        ),
        ("def f(xs) return 3", "tests.syntax", 0, "The code has a syntax error: line 1: expected ':'."),
        ("def g(xs): return 3", "tests.missing_function", 0, "The code does not define the function f."),
        ("I am not able to help.", "tests.no_code", 0, REMEDIES["tests.no_code"]),
        ("import sys\nsys.exit(0)\ndef f(xs): return 3", "tests.exit", 0, None),
        ("def f(xs):\n    exit()", "tests.exception", 0, None),  # without site there is no exit()
        ("def f(xs): return range(3)", "tests.return_type", 0, None),
        ("def f(xs):\n    while xs or not xs: pass", "tests.timeout", 0, None),
        ("def f(xs): return [0] * 10**10", "tests.memory", 0, None),
    ],
)
def test_what_went_wrong_is_named_without_the_hidden_tests(
    answer: str, category: str, score: float, feedback: str | None
) -> None:
    result = judge(answer)
    assert result.error is None
    assert (result.passed, result.category) == (False, category)
    assert result.score == pytest.approx(score)
    assert result.remedy == REMEDIES[category]
    assert feedback is None or result.feedback == feedback
    assert "71" not in result.feedback and "[7]" not in result.feedback
    assert result.feedback and result.reason


def test_a_right_answer_passes_in_any_dress() -> None:
    code = "def f(xs):\n    return 71 if xs == [7] else sum(xs)"
    for answer in (code, f"Sure.\n```python\n{code}\n```\nIt adds.", f"```\n{code}"):
        result = judge(answer)
        assert (result.passed, result.score, result.feedback) == (True, 1.0, "")
    assert result.metadata["tier"] in ("container", "bubblewrap", "subprocess")
    assert "limits" in result.metadata["held"]
    assert judge("    return 71 if xs == [7] else sum(xs)", prompt="{{ prompt }}").passed


def test_assertions_shown_in_the_prompt_may_be_named() -> None:
    prompt = "Write f. Your code should pass:\nassert f([1, 2]) == 3"
    result = judge("def f(xs): return 0", said=prompt)
    assert result.feedback == (
        "This example failed: assert f([1, 2]) == 3. The code: f([1, 2]) returned 0. 1 of 2 hidden tests failed."
    )


def test_the_wrong_example_of_a_prompt_does_not_decide() -> None:
    prompt = 'def f(xs):\n    """\n    >>> f([1])\n    99\n    """\n'
    assert judge("def f(xs): return 71 if xs == [7] else sum(xs)", said=prompt).passed


def test_tests_that_cannot_run_are_errors_not_failures() -> None:
    broken = (
        "assert f(1",
        "x = 1",
        "assert f(object()) == 1",
        "assert undefined_name == f([1])",
        "import nowhere\nassert f(1)",
    )
    for tests in broken:
        result = judge("def f(xs): return 1", tests=tests, entry_point="f")
        assert result.passed is None and result.error is not None, tests


def test_exceptions_reach_tests_that_expect_them() -> None:
    tests = "try:\n    f('x')\nexcept ValueError as e:\n    assert 'bad' in str(e)\nelse:\n    assert False"
    own = "class Bad(ValueError): pass\ndef f(xs): raise Bad('bad')"
    assert judge(own, tests=tests).passed
    assert not judge("def f(xs): raise KeyError('bad')", tests=tests).passed
    assert not judge("def f(xs): return 1", tests=tests).passed


def test_arguments_travel_by_value() -> None:
    tests = "xs = [3, 1]\nassert f(xs) == sorted(xs)"
    assert not judge("def f(xs):\n    xs.clear()\n    return []", tests=tests).passed


def test_negate_and_a_list_of_tests() -> None:
    spec = {"id": "it", "type": "unit_tests", "tests": "{{ test_list }}", "sandbox": BOX, "negate": True}
    sample = make_sample(None, test_list=["assert f(1) == 2", "assert f(2) == 3"])
    good, bad = (
        run_evaluators(build_evaluators([spec]), sample, make_attempt(f"def f(n): return n + {step}"))[0]
        for step in (1, 2)
    )
    assert (good.passed, good.category, bad.passed) == (False, "tests.passed", True)


def test_without_consent_nothing_runs_unsandboxed() -> None:
    result = judge("def f(xs): return 1", sandbox={"tier": "subprocess"})
    assert result.passed is None and result.fault_side == "environment"
    assert "allow_unsandboxed" in (result.error or "")


def test_of_several_blocks_the_one_that_defines_the_function_counts() -> None:
    text = (
        "```python\ndef f(x):\n    return 1\n```\nBetter:\n```py\ndef f(x):\n    return 2\n```\n```sh\npython f.py\n```"
    )
    assert extract_code(text, "f") == "def f(x):\n    return 2\n"
    assert extract_code(text, "g") == "def f(x):\n    return 1\n\ndef f(x):\n    return 2\n"


def test_only_plain_examples_of_the_function_are_taken() -> None:
    text = ">>> f(1)\n2\n>>> g(1)\n2\n>>> f(x)\n2\n>>> f(os)\n<module>\n>>> x = f(1)\n"
    text += ">>> f([1, -2], k='a')\n[]\n>>> f(1)\n2\n"
    assert shown_examples([text], "f") == [("f(1)", "2"), ("f([1, -2], k='a')", "[]")]


def test_blocks_with_helpers_go_before_the_one_that_defines_the_function() -> None:
    blocks = [
        "import math\nSIZE = 3\n\n\ndef helper(x):\n    return x\n",
        "def f(x):\n    return None\n",
        "print(f(1))\n",
        "y = f(1)\n",
        "pip install this\n",
        "import math\n\n\ndef f(x):\n    return helper(x)\n",
        "assert f(1) == 1\n",
    ]
    text = "Then:\n".join(f"```python\n{block}```\n" for block in blocks)
    assert extract_code(text, "f") == f"{blocks[0]}\n{blocks[5]}"


FAILURES = [  # label, value got, function: as samples of public benchmarks have them
    ("assert candidate([1.0, 2.0, 3.9], 0.3) == True", "False", "has_close_elements"),
    ("assert candidate('(()()) ((()))') == ['(()())', '((()))']", "['(()())']", "separate_paren_groups"),
    ('assert candidate("it\'s") == "a \\"b\\""', '"it\'s"', "quote"),
    ("assert candidate('`x`', \"y\") == '\\\\'", "None", "mark"),
    ("assert abs(candidate(3.5) - 0.5) < 1e-6", "", "truncate_number"),
]


def report(outcome: Any, label: str, *, got: str = "", error_type: str = "") -> SandboxReport:
    steps = [StepReport(TestStep("", label), outcome, error_type, got=got), StepReport(TestStep("", "x"), "passed")]
    return SandboxReport("subprocess", tuple(steps))


@pytest.mark.parametrize("outcome", ["assert", "raised", "missing"])
def test_failures_of_different_samples_are_one_pattern(outcome: Any) -> None:
    prints = set()
    for label, got, function in FAILURES:
        told = report(outcome, label, got=got or "1", error_type="ValueError" if outcome == "raised" else "")
        if outcome == "missing":
            told = SandboxReport("subprocess", (), loading=outcome, detail=function)
        prints.add(fingerprint("it", category_of(told), reason_of(told)))
    assert len(prints) == 1


def test_the_reason_names_the_test_and_what_came_of_it() -> None:
    told = report("assert", "assert f(2) == 3", got="4")
    assert reason_of(told) == '1 of 2 tests failed; first (assert): "assert f(2) == 3", "got 4"'
