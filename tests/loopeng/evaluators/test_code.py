"""unit_tests: code of an answer against tests, and what the model may hear of it."""

from __future__ import annotations

from typing import Any

import pytest

from loopeng.errors import SandboxError
from loopeng.evaluators import build_evaluators, run_evaluators
from loopeng.evaluators.code_feedback import REMEDIES, category_of, is_shown, reason_of
from loopeng.evaluators.code_text import extract_code, looks_like_code, shown_examples
from loopeng.patterns.fingerprint import fingerprint
from loopeng.sandbox import SandboxReport, StepReport, TestStep, choose_tier, plan_tests
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
        ("def f(xs): return 3\n#" + "x" * 600_000, "tests.too_long", 0, "The code is too long."),
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


SHOWN = "Write f. Your code should pass:\nassert f([1, 2]) == 3\n"


def test_what_hidden_tests_passed_in_does_not_come_back_as_a_value() -> None:
    """The code keeps all it was ever called with and returns it where the model would hear of it."""
    keeper = "def f(xs, kept=[]):\n    kept.append(xs)\n    return kept"
    assert judge(keeper, said=SHOWN).feedback == (
        "This example failed: assert f([1, 2]) == 3. The code: f([1, 2]) returned [[1, 2]]. 2 of 2 hidden tests failed."
    )
    assert "This example failed: f([1, 2]) returned [[1, 2]], expected 3." in judge(keeper).feedback


@pytest.mark.parametrize("name", ["type(repr(xs), (ValueError,), {})", "type('E' * 10**6, (ValueError,), {})"])
def test_the_name_of_an_exception_carries_nothing(name: str) -> None:
    result = judge(f"def f(xs):\n    raise {name}", said="Write f.")
    assert result.feedback == "3 of 3 tests failed; the code raised ValueError."
    assert result.reason == "3 of 3 tests failed; first: raised ValueError"


def test_values_that_stand_beside_no_shown_call_are_not_told() -> None:
    tests, code = "xs = [71]\nassert f(xs) == 3\nassert f([9]) == 0", "def f(xs): return xs"
    told = judge(code, tests=tests, said="It must pass:\nassert f(xs) == 3").feedback
    assert told == "2 of 2 tests failed."  # what xs is belongs to the test and is not shown
    told = judge(code, tests=tests, said="It must pass:\nxs = [71]\nassert f(xs) == 3").feedback
    assert told == "This example failed: assert f(xs) == 3. 1 of 1 hidden tests failed."


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("assert f(2) == 4", True),
        ("It must pass assert  f( 2 )==4, and more.", True),
        ("assert f(2) == 4\nassert f(3) == 9", True),
        ("assert f(2) == 4.", True),
        ("assert f(2) == 42", False),
        ("assert f(2) == 4.5", False),
        ("assert f(12) == 4", False),
    ],
)
def test_a_test_is_shown_where_it_stands_word_for_word(text: str, shown: bool) -> None:
    (step,) = plan_tests("assert f(2) == 4").steps
    assert is_shown(step, [text]) is shown


def test_a_reason_names_no_hidden_test_but_people_find_it() -> None:
    result = judge("def f(xs): return 3", said="Write f.")
    assert result.reason == "2 of 3 tests failed; first: assert"
    first = {"test": "assert f([7]) == 71", "outcome": "assert", "called": "f([7])", "got": "3"}
    assert result.metadata["first_failed"] == first


@pytest.mark.parametrize("trap", ["exit", "hang", "state"])
def test_an_example_never_decides(trap: str) -> None:
    """What the code does when it is shown an example must not reach the tests, which are run without it."""
    does = {"exit": "import os; os._exit(0)", "hang": "while True: pass", "state": "kept.append(1)"}[trap]
    code = (
        f"kept = []\ndef f(xs):\n    if xs == [5]:\n        {does}\n    return 71 if xs == [7] else sum(xs) + len(kept)"
    )
    prompt = 'def f(xs):\n    """\n    >>> f([5])\n    5\n    """\n'
    assert judge(code, said=prompt).passed
    broken = judge(code.replace("71", "70"), said=prompt)
    assert broken.feedback.startswith("This example failed: f([5]) ")
    assert broken.feedback.endswith("1 of 3 hidden tests failed.") and broken.score == pytest.approx(2 / 3)


def test_a_shown_test_that_fails_only_after_others_is_still_named() -> None:
    code = "calls = []\ndef f(xs):\n    calls.append(xs)\n    return 71 if xs == [7] else sum(xs) + (len(calls) > 2)"
    result = judge(code, said=SHOWN)
    assert (result.passed, result.feedback) == (False, "This example failed: assert f([1, 2]) == 3.")


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


def test_an_exception_of_its_own_is_known_by_a_name_to_the_tests() -> None:
    tests = "try:\n    f('x')\nexcept CandidateError:\n    pass\nelse:\n    assert False"
    assert judge("class Bad(Exception): pass\ndef f(xs): raise Bad", tests=tests).passed
    assert not judge("def f(xs): return 1", tests=tests).passed


@pytest.mark.parametrize(
    "answer",
    [
        "def f(xs): return '('",
        "def f(xs): return 'x' * 10**5",
        "def f(xs): raise type('MemoryError', (Exception,), {'__module__': 'builtins'})",
        "def f(xs): raise type('E' * 10**6, (Exception,), {})",
    ],
)
def test_no_answer_makes_an_error_of_its_failure(answer: str) -> None:
    result = judge(answer, tests="import ast\nassert ast.literal_eval(f([7])) == 71")
    assert (result.passed, result.error) == (False, None)


WITH_DATACLASS = """\
from __future__ import annotations
from dataclasses import dataclass

@dataclass
class Pair:
    left: list[int]
    right: Pair | None = None

def f(xs: list[int]) -> int:
    return 71 if Pair(xs).left == [7] else sum(xs)
"""


def test_annotations_as_texts_and_dataclasses_are_no_obstacle() -> None:
    assert judge(WITH_DATACLASS).passed
    assert judge(WITH_DATACLASS, prompt="{{ prompt }}").passed


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


def test_blocks_that_define_what_the_last_one_needs_come_along() -> None:
    helper, function = "import math\n\ndef half(x):\n    return math.floor(x / 2)\n", "def f(x):\n    return half(x)\n"
    usage, other = "half = f(4)\nprint(half)\n", "def unused(x):\n    return x\n"
    text = "".join(f"Text.\n```python\n{block}```\n" for block in (other, helper, function, usage))
    assert extract_code(text, "f") == f"{helper}\n{function}"


def test_long_texts_are_read_in_one_go() -> None:
    """Each of these would take minutes if it was tried in more than one way."""
    assert extract_code("```" + "a" * 200_000) == "```" + "a" * 200_000
    assert not looks_like_code("\n" * 200_000)
    assert shown_examples([">>>" + " " * 200_000 + "\n>>>"], "f") == []


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
