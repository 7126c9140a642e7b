"""Words for a run of tests: category, reason, and feedback that keeps hidden tests hidden.

What a candidate returned for one test may be what another test passed in. So a value is told only from a second run, in
which the shown tests are the only ones; and of an exception only the built-in type, as a name can be made to carry a
value.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from loopeng.evaluators.wording import count_of, join_words, quoted
from loopeng.sandbox import Outcome, SandboxReport, StepReport, TestStep

__all__ = ["CATEGORIES", "REMEDIES", "category_of", "feedback_of", "first_failed", "is_shown", "reason_of"]

_CATEGORY: dict[Outcome, str] = {
    "assert": "tests.assert",
    "raised": "tests.exception",
    "timeout": "tests.timeout",
    "memory": "tests.memory",
    "exit": "tests.exit",
    "not plain": "tests.return_type",
    "too large": "tests.return_type",
    "protocol": "tests.protocol",
    "syntax": "tests.syntax",
    "missing": "tests.missing_function",
}
REMEDIES = {
    "tests.assert": "Work through every example by hand and check that the code returns exactly that value.",
    "tests.exception": "Make the code work for empty and unusual input, without an exception.",
    "tests.timeout": "Make sure that every loop ends, and choose a fast way.",
    "tests.memory": "Do not build very large lists or strings.",
    "tests.exit": "Return a value. Do not end the program.",
    "tests.return_type": "Return a plain Python value: a number, text, list, tuple, dict or set.",
    "tests.protocol": "Write only the function. Do not write to files or other outputs.",
    "tests.syntax": "Answer with complete Python code that has no syntax errors.",
    "tests.too_long": "Write a much shorter program, without long tables of values.",
    "tests.missing_function": "Define the function with exactly the name that is asked for.",
    "tests.no_code": "Answer with Python code in one ``` block.",
    "tests.passed": "Do not answer with code that passes the tests.",
}
CATEGORIES = frozenset(REMEDIES) - {"tests.passed"}
_LOADING: dict[Outcome, str] = {
    "timeout": "The code took too long before any function was called.",
    "memory": "The code used too much memory before any function was called.",
    "exit": "The code ended the program before any function was called.",
    "protocol": "The code wrote where it must not write.",
    "too large": "The code is too long.",
}
_HIDDEN: dict[Outcome, str] = {
    "timeout": "took too long",
    "memory": "used too much memory",
    "exit": "ended the program",
    "not plain": "returned a value that is not plain Python data",
    "too large": "returned a value that is too large",
    "protocol": "wrote where it must not write",
}


def category_of(report: SandboxReport) -> str:
    """Of the first thing that went wrong, in the order the tests stand."""
    if report.loading is not None:
        return "tests.too_long" if report.loading == "too large" else _category(report.loading, report.detail)
    first = _first_failed(report)
    return _category(first.outcome, first.error_type)


def _category(outcome: Outcome, error_type: str) -> str:
    return "tests.exit" if outcome == "raised" and error_type == "SystemExit" else _CATEGORY[outcome]


def _first_failed(report: SandboxReport) -> StepReport:
    return next(test for test in report.tests if not test.passed)


def first_failed(report: SandboxReport) -> dict[str, str]:
    """The first failing test, hidden or not, for people alone."""
    if report.loading is not None:
        return {}
    first = _first_failed(report)
    return {"test": first.step.label, "outcome": first.outcome, "called": first.called, "got": first.got}


def reason_of(report: SandboxReport) -> str:
    """Counts and the first outcome; a reason is read by models too, so it names no test."""
    if report.loading is not None:
        detail = quoted([report.detail]) if report.loading == "missing" else report.detail
        return f"the code could not be loaded: {' '.join(filter(None, (report.loading, detail)))}"
    total = len(report.tests)
    if report.passed:
        return f"{count_of(total, 'test')} passed"
    first = _first_failed(report)
    said = " ".join(filter(None, (first.outcome, first.error_type)))
    return f"{total - report.num_passed} of {count_of(total, 'test')} failed; first: {said}"


def feedback_of(report: SandboxReport, alone: Sequence[StepReport], shown: Sequence[str]) -> str:
    """For the model: one failing example that stands in ``shown``, then counts and exception types of the rest.

    ``alone`` are the examples and shown tests, run without any other.
    """
    if report.loading is not None:
        return _of_loading(report.loading, report.detail, shown)
    open_tests = [test for test in report.tests if is_shown(test.step, shown)]
    hidden = [test for test in report.tests if test not in open_tests]
    failed = [test for test in alone if not test.passed]
    if not failed and (not alone or all(test.passed for test in hidden)):
        failed = [replace(test, called="", got="") for test in open_tests if not test.passed]
    sentences = [_of_example(failed[0])] if failed else []
    sentences += _of_hidden(hidden, "hidden " if alone or open_tests else "")
    return " ".join(sentences)


def _of_loading(loading: Outcome, detail: str, shown: Sequence[str]) -> str:
    if loading == "syntax":
        return f"The code has a syntax error: {detail}."
    if loading == "missing":
        named = f"the function {detail}" if any(detail in text for text in shown) else "the function that is asked for"
        return f"The code does not define {named}."
    if loading == "raised":
        return f"The code raised {detail} before any function was called."
    return _LOADING[loading]


def is_shown(step: TestStep, texts: Sequence[str]) -> bool:
    """Whether a test, with what is run for it, stands in the texts, but for spaces and the kind of quotation marks."""
    lines = [line for line in step.source.splitlines() if line.strip() and not line.startswith(("import ", "from "))]
    return all(any(_holds(text, part) for text in texts) for part in (step.label, *lines))


def _holds(text: str, part: str) -> bool:
    """As whole words: ``f(2) == 42`` does not hold ``f(2) == 4``."""
    part = _squeezed(part.strip())
    end = r"(?!\w|\.\d)" if re.match(r"\w", part[-1:]) else ""
    return re.search(rf"(?<!\w){re.escape(part)}{end}", _squeezed(text)) is not None


@lru_cache(maxsize=64)
def _squeezed(text: str) -> str:
    """Spaces only between words."""
    return re.sub(r"(?<!\w)\s+|\s+(?!\w|\s)", "", re.sub(r"\s+", " ", text)).replace('"', "'")


def _of_example(example: StepReport) -> str:
    """The value only beside the very call it belongs to, which a test may have made from other values."""
    step = example.step
    if step.expected is not None:
        return f"This example failed: {step.label} {_did(example)}, expected {step.expected}."
    if not example.called or not _holds(step.label, example.called):
        return f"This example failed: {step.label}."
    return f"This example failed: {step.label}. The code: {example.called} {_did(example)}."


def _did(example: StepReport) -> str:
    if example.outcome == "assert":
        return f"returned {example.got}" if example.got else "failed"
    return f"raised {example.error_type}" if example.outcome == "raised" else _HIDDEN[example.outcome]


def _of_hidden(tests: Sequence[StepReport], adjective: str) -> list[str]:
    failed = [test for test in tests if not test.passed]
    if not failed:
        return []
    kinds = list(dict.fromkeys(test.error_type for test in failed if test.outcome == "raised"))
    said = [f"raised {join_words(kinds, 'and')}"] if kinds else []
    said += dict.fromkeys(_HIDDEN[test.outcome] for test in failed if test.outcome in _HIDDEN)
    more = f"; the code {join_words(said, 'and')}" if said else ""
    return [f"{len(failed)} of {len(tests)} {adjective}tests failed{more}."]
