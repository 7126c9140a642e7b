"""Which patterns an attempt shows."""

from __future__ import annotations

from typing import Any

from loopeng.patterns.fingerprint import FINGERPRINT_VERSION, fingerprint
from loopeng.patterns.showing import fingerprints_of_pattern, shown_fingerprints
from loopeng.schema import EvalResult, FailurePattern, Sample, utc_now

SAMPLE = Sample(id="a", inputs={"product": "Red Kettle"}, target="a red one", split="gate")


def failed(reason: str, **changes: Any) -> EvalResult:
    return EvalResult.model_validate({"evaluator": "e", "passed": False, "category": "c", "reason": reason} | changes)


def pattern(name: str, merged_into: str | None = None, version: str = FINGERPRINT_VERSION) -> FailurePattern:
    return FailurePattern(
        id=name, prompt_name="p", fingerprint=f"{version}:{name}", evaluator="e", category="c", reason="r",
        merged_into=merged_into, created_at=utc_now(),
    )  # fmt: skip


def test_only_failures_of_the_model_are_shown() -> None:
    passed, broken = EvalResult(evaluator="e", passed=True), EvalResult(evaluator="e", error="broke")
    environment = failed("no disk", fault_side="environment")
    assert shown_fingerprints(SAMPLE, [passed, broken, environment]) == frozenset()
    assert shown_fingerprints(SAMPLE, [failed("41 words"), failed("38 words")]) == {fingerprint("e", "c", "7 words")}


def test_what_a_reason_quotes_of_its_sample_is_no_other_mistake() -> None:
    other = Sample(id="b", inputs={"product": "Blue Mug"}, target="a blue one", split="gate")
    for first, second in (
        ("the Red Kettle is missing", "the Blue Mug is missing"),
        ("not a red one", "not a blue one"),
    ):
        assert shown_fingerprints(SAMPLE, [failed(first)]) == shown_fingerprints(other, [failed(second)])


def test_merged_patterns_are_one() -> None:
    kept, merged, deep, other = pattern("a"), pattern("b", "a"), pattern("c", "b"), pattern("d")
    old = pattern("e", "a", version="v0")
    found = fingerprints_of_pattern(kept, [deep, merged, kept, other, old])
    assert found == {each.fingerprint for each in (kept, merged, deep)}
    assert fingerprints_of_pattern(merged, [deep, merged, kept, other]) == {merged.fingerprint, deep.fingerprint}
