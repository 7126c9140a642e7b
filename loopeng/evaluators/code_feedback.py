"""Words for a run of tests: category, reason for people, and feedback that keeps hidden tests hidden."""

from __future__ import annotations

from collections.abc import Sequence

from loopeng.evaluators.wording import count_of, join_words, quoted
from loopeng.sandbox import Outcome, SandboxReport, StepReport

__all__ = ["CATEGORIES", "REMEDIES", "category_of", "feedback_of", "reason_of"]

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
        return _category(report.loading, report.detail)
    first = next(test for test in report.tests if not test.passed)
    return _category(first.outcome, first.error_type)


def _category(outcome: Outcome, error_type: str) -> str:
    return "tests.exit" if outcome == "raised" and error_type == "SystemExit" else _CATEGORY[outcome]


def reason_of(report: SandboxReport) -> str:
    """For people: may name a hidden test. What is of one sample alone is quoted, so that it makes no new pattern."""
    if report.loading is not None:
        detail = quoted([report.detail]) if report.loading == "missing" else report.detail
        return f"the code could not be loaded: {' '.join(filter(None, (report.loading, detail)))}"
    total = len(report.tests)
    if report.passed:
        return f"{count_of(total, 'test')} passed"
    first = next(test for test in report.tests if not test.passed)
    said = " ".join(filter(None, (first.outcome, first.error_type)))
    told = [first.step.label, *([f"got {first.got}"] if first.outcome == "assert" and first.got else [])]
    return f"{total - report.num_passed} of {count_of(total, 'test')} failed; first ({said}): {quoted(told)}"


def feedback_of(report: SandboxReport, shown: Sequence[str]) -> str:
    """For the model: one failing example that stands in ``shown``, then counts and exception types of the rest."""
    if report.loading is not None:
        return _of_loading(report.loading, report.detail, shown)
    open_tests = [test for test in report.tests if _is_shown(test, shown)]
    hidden = [test for test in report.tests if test not in open_tests]
    failed_open = [each for each in (*report.examples, *open_tests) if not each.passed]
    sentences = [_of_example(failed_open[0])] if failed_open else []
    sentences += _of_hidden(hidden, "hidden ") if open_tests or report.examples else _of_hidden(hidden, "")
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


def _is_shown(test: StepReport, shown: Sequence[str]) -> bool:
    label = "".join(test.step.label.split()).replace('"', "'")
    return any(label in "".join(text.split()).replace('"', "'") for text in shown)


def _of_example(example: StepReport) -> str:
    step, called = example.step, example.called
    if example.outcome == "assert":
        did = f"returned {example.got}" if example.got else "failed"
    else:
        did = f"raised {example.error_type}" if example.outcome == "raised" else _HIDDEN[example.outcome]
    if step.expected is not None:
        return f"This example failed: {step.label} {did}, expected {step.expected}."
    return f"This example failed: {step.label}. The code: {called or 'it'} {did}."


def _of_hidden(tests: Sequence[StepReport], adjective: str) -> list[str]:
    failed = [test for test in tests if not test.passed]
    if not failed:
        return []
    kinds = list(dict.fromkeys(test.error_type for test in failed if test.outcome == "raised"))
    said = [f"raised {join_words(kinds, 'and')}"] if kinds else []
    said += dict.fromkeys(_HIDDEN[test.outcome] for test in failed if test.outcome in _HIDDEN)
    more = f"; the code {join_words(said, 'and')}" if said else ""
    return [f"{len(failed)} of {len(tests)} {adjective}tests failed{more}."]
