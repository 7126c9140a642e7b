from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopeng.errors import TaskError
from loopeng.evaluators import build_evaluators
from loopeng.evaluators.numerals import boxed, numbers_in, read_number
from loopeng.patterns.fingerprint import fingerprint
from tests.loopeng.evaluators.conftest import Judge

QUICK = settings(max_examples=60, deadline=None)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("18", "18"),
        ("+18", "18"),
        ("-18", "-18"),
        ("\u221218", "-18"),
        ("\uff0d18", "-18"),
        ("$1,234.50", "1234.5"),
        ("$1,234.50.", "1234.5"),
        ("-$5", "-5"),
        ("$-5", "-5"),
        ("\\$5", "5"),
        ("€ 3", "3"),
        ("1,234,567", "1234567"),
        ("1\u202f234\u202f567", "1234567"),
        ("1'234", "1234"),
        ("1{,}234", "1234"),
        ("1\\,234", "1234"),
        (".5", "0.5"),
        ("-.5", "-0.5"),
        ("3/4", "3/4"),
        ("-3/4", "-3/4"),
        ("2 1/2", "5/2"),
        ("2½", "5/2"),
        ("-2 ½", "-5/2"),
        ("¾", "3/4"),
        ("\\frac{3}{4}", "3/4"),
        ("-\\dfrac{3}{4}", "-3/4"),
        ("1\\frac{1}{2}", "3/2"),
        ("1.5e3", "1500"),
        ("2E-3", "1/500"),
        ("1.5 × 10^3", "1500"),
        ("1.5x10^-3", "3/2000"),
        ("2 \\times 10^{3}", "2000"),
        ("12%", "12"),
        ("12 \\%", "12"),
        ("12 percent", "12"),
        ("007", "7"),
        ("٣", "3"),
    ],
)
def test_ways_of_writing_a_number(text: str, value: str) -> None:
    number = read_number(text)
    assert number is not None and number.value == Fraction(value)
    assert [each.value for each in numbers_in(f"It is {text}, so.")] == [Fraction(value)]


@pytest.mark.parametrize(
    "text", ["", "x", "1 2", "3 apples", "3/0", "1e999999999", "9" * 5000, "H2", "--5", "1..2", "NaN", "inf", "True"]
)
def test_what_is_no_number(text: str) -> None:
    assert read_number(text) is None


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("16-3-4 = 9", [16, 3, 4, 9]),
        ("3–5 days", [3, 5]),
        ("H2O, x2 and GPT4", []),
        ("**5**-3 and 2^3^2", [5, -3, 8]),
        ("<<9*2=18>>18", [9, 2, 18, 18]),
        ("5kg on the 3rd", [5, 3]),
        ("f(2)-1", [2, 1]),
        ("(-1)", [-1]),
        ("1,2,3", [1, 2, 3]),
        ("**-4**, _5_", [-4, 5]),
        ("1e999999999 then 3", [3]),
        ("No.5", [5]),
    ],
)
def test_numbers_in_a_text(text: str, values: list[int]) -> None:
    assert [number.value for number in numbers_in(text)] == values


@QUICK
@given(st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9))
def test_a_number_is_read_as_it_was_written(number: Any) -> None:
    for text in (f"{number:,}", f"{number:f}", f"${number:,}."):
        read = read_number(text)
        assert read is not None and read.value == Fraction(number)
        assert [each.value for each in numbers_in(f"So\n#### {text}\n")] == [Fraction(number)]


@QUICK
@given(st.text(alphabet="0123456789.,-+/%$eE^x× {}\\()'½"))
def test_any_text_is_read_without_an_error(text: str) -> None:
    assert all(isinstance(number.value, Fraction) for number in numbers_in(text))
    read_number(text)


def test_boxed() -> None:
    assert boxed(r"\boxed{1} or \boxed{\frac{1}{2}}.") == r"\frac{1}{2}"
    assert boxed("none") is None
    assert boxed(r"\boxed{1") is None


@pytest.mark.parametrize(
    ("text", "keys", "category"),
    [
        ("9 + 9 = 18", {}, None),
        ("So it is $18.00.", {}, None),
        ("18, since 9 + 9", {}, "numeric.wrong"),
        ("18, since 9 + 9", {"where": "first"}, None),
        ("eighteen", {}, "numeric.missing"),
        ("", {}, "numeric.missing"),
        ("#### 18\nThat took 3 steps.", {"where": "line"}, None),
        ("**Answer:** 18 eggs, 9 a day", {"where": "line"}, None),
        ("Answer: 9 + 9 = 18", {"where": "line"}, None),
        ("18", {"where": "line"}, "numeric.misplaced"),
        ("Total: 18", {"where": "line", "marker": "Total:"}, None),
        (r"so \boxed{18 \text{ eggs}}, not 19", {"where": "boxed"}, None),
        ("18", {"where": "boxed"}, "numeric.misplaced"),
        ("#### 18\nThat took 3 steps.", {"where": ["line", "boxed", "last"]}, None),
        ("18", {"where": ["line", "boxed", "last"]}, None),
        ('{"a": {"b": [1, 18.0]}}', {"where": "json", "path": "$.a.b[1]"}, None),
        ('```json\n{"a": "18"}\n```', {"where": "json", "path": "a"}, None),
        ("[18]", {"where": "json", "path": "[0]"}, None),
        ('{"a": 19}', {"where": "json", "path": "a"}, "numeric.wrong"),
        ('{"a": true}', {"where": "json", "path": "a"}, "numeric.missing"),
        ('{"a": [1]}', {"where": "json", "path": "a.b"}, "numeric.misplaced"),
        ('{"b": 18}', {"where": "json", "path": "a"}, "numeric.misplaced"),
        ("a: 18", {"where": "json", "path": "a"}, "numeric.misplaced"),
        ("17.9", {}, "numeric.wrong"),
        ("17.9", {"abs_tol": 0.1}, None),
        ("17.8", {"abs_tol": 0.1}, "numeric.wrong"),
        ("17.1", {"rel_tol": 0.05}, None),
        ("17", {"rel_tol": 0.05}, "numeric.wrong"),
        ("18", {"negate": True}, "numeric.equal"),
        ("none", {"negate": True}, None),
    ],
)
def test_numeric(text: str, keys: dict[str, Any], category: str | None, judge: Judge) -> None:
    for target in ("18", 18, 18.0, "$18", ["eighteen is 18"[-2:], 99]):
        result = judge(text, type="numeric", target=target, **keys)
        assert (result.error, result.passed, result.category) == (None, category is None, category)
        assert result.score == float(result.passed or 0)


@pytest.mark.parametrize(
    ("text", "target", "passed"),
    [
        ("12%", "12", True),
        ("12%", "0.12", True),
        ("0.12", "12%", True),
        ("12", "12%", True),
        ("12%", "12%", True),
        ("0.12%", "12%", False),
        ("12%", "1.2", False),
        ("0.1", 0.1, True),
        ("1/3", "1/3", True),
        ("0.333", "1/3", False),
        ("0.5", "1/2", True),
        ("10000000001", "10000000000", False),
    ],
)
def test_numbers_are_compared_exactly(text: str, target: Any, passed: bool, judge: Judge) -> None:
    assert judge(text, type="numeric", target=target).passed is passed


@pytest.mark.parametrize("target", ["a", "3 apples", True, {"n": 1}, "1 2"])
def test_a_target_that_is_no_number_is_an_error(target: Any, judge: Judge) -> None:
    result = judge("1", type="numeric", target=target)
    assert str(result.error).startswith("ValueError: the expected value ") and result.passed is None


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"value": "a"}, "the value 'a' is no number"),
        ({"where": "json"}, "'path' and where: json go together"),
        ({"path": "a"}, "'path' and where: json go together"),
        ({"where": "json", "path": "a..b"}, "the path 'a..b' cannot be read"),
        ({"marker": "x"}, "'marker' needs where: line"),
        ({"where": "lsat"}, "did you mean 'last'"),
        ({"abs_tol": -1}, "abs_tol must be at least 0"),
    ],
)
def test_keys_that_cannot_work_are_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(TaskError) as error:
        build_evaluators([{"id": "it", "type": "numeric", **keys}])
    assert message in str(error.value)


def test_numeric_says_what_is_wanted_and_never_the_number(judge: Judge) -> None:
    wrong = judge("It is 17", type="numeric", target="18")
    assert wrong.feedback == "The number 17 is wrong. Check each step."
    assert wrong.reason == '"17" is not "18"'
    assert judge("18.5", type="numeric", target="18").feedback == "The number 18.5 is wrong. Check each step."
    line = judge("It is 18", type="numeric", target="18", where="line")
    assert line.feedback == line.remedy == 'End with a line that begins with "####" and then gives the number.'
    negated = judge("7", type="numeric", value=7, negate=True)
    assert negated.remedy == "Do not answer with 7."
    named = judge("7", type="numeric", value="{{ count }}", negate=True, inputs={"count": 7})
    assert named.remedy == "Do not answer with the count."


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-½", "-1/2"),
        ("- so ½", "1/2"),
        ("-2½", "-5/2"),
        ("10^6", "1000000"),
        ("10^{6}", "1000000"),
        ("10**6", "1000000"),
        ("10 ^ 6", "1000000"),
        ("2^-2", "1/4"),
        ("**5**, so", "5"),
        ("(10^6)", "1000000"),
        ("$10k", "10000"),
        ("$1.5M", "1500000"),
        ("10k", "10000"),
        ("5kg", "5"),
        ("300K", "300"),
        ("9 cm^2", "9"),
        ("9 cm^{-2}", "9"),
        ("9 cm^12", "9"),
        ("0^-1", None),
        ("9^999999", None),
    ],
)
def test_signs_powers_and_thousands(text: str, value: str | None) -> None:
    given = [each.value for each in numbers_in(f"It is {text}.")]
    assert given == ([] if value is None else [Fraction(value)])


def test_a_tolerance_is_the_decimal_that_was_written(judge: Judge) -> None:
    assert judge("1.3", type="numeric", value=1, abs_tol=0.3).passed
    assert judge("1.1", type="numeric", value=1, rel_tol=0.1).passed
    assert not judge("1.3000001", type="numeric", value=1, abs_tol=0.3).passed


@pytest.mark.parametrize("text", ['{"a": 42}', '{"a": "42"}', '{"a": {"0": 4}}', "[42]"])
def test_an_index_takes_an_item_of_a_list_and_no_digit_of_a_number(text: str, judge: Judge) -> None:
    keys = {"type": "numeric", "value": 4, "where": "json", "path": "a[0]"}
    assert judge(text, **keys).category == "numeric.misplaced"
    assert judge('{"a": [4]}', **keys).passed


def test_a_wrong_number_is_one_pattern_however_it_is_written(judge: Judge) -> None:
    reasons = [judge(f"It is {text}", type="numeric", value=20).reason for text in ("18", "$18", "3/4", "18%", "-½")]
    assert {fingerprint("it", "numeric.wrong", reason) for reason in reasons} == {
        fingerprint("it", "numeric.wrong", '"1" is not "2"')
    }
