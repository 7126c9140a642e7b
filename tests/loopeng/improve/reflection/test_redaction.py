from __future__ import annotations

import pytest

from loopeng.improve.reflection.redaction import hide_targets, redacted_example
from loopeng.schema import Attempt, EvalResult, Message, Sample, utc_now


def sample(target: object, split: str = "gate") -> Sample:
    return Sample.model_validate({"id": "s", "inputs": {"q": "capital of France"}, "target": target, "split": split})


def hidden(text: str, target: object, shown: str = "") -> str:
    (result,) = hide_targets([text], [sample(target)], shown)
    return result


def test_an_example_says_nothing_of_its_target() -> None:
    """Neither where the model came near it, nor where an evaluator compares with it."""
    said = {"reason": "not Paris", "feedback": "not Paris", "metadata": {"expected": "Paris"}}
    results = (EvalResult.model_validate({"evaluator": "e", "passed": False, "score": 0} | said),)
    attempt = Attempt(
        run_id="r", sample_id="s", seed=0, messages=(Message(role="user", content="Capital?"),), verdict="fail",
        text="It is not paris, but Lyon.", token_ids=(1, 2), trajectory=["Paris"], results=results,
        created_at=utc_now(),
    )  # fmt: skip
    shown_sample, shown = redacted_example(sample("Paris"), attempt)
    assert "paris" not in f"{shown_sample!r}{shown!r}".lower()
    assert shown.text == "It is not [hidden], but Lyon." and shown.results[0].feedback == "not [hidden]"


@pytest.mark.parametrize(
    ("text", "target", "result"),
    [
        ("Answer Paris.", "Paris", "Answer [hidden]."),
        ("Answer Parisian.", "Paris", "Answer Parisian."),
        ("Use 42 or PARIS.", {"a": [42, "Paris"]}, "Use [hidden] or [hidden]."),
        ("Say: one, TWO three four - five! Now six.", "zero one two three four five six seven",
         "Say: [hidden]! Now six."),
        ("Say one two three four.", "one two three four five", "Say one two three four."),
        ("one two three four five six one two three four five", "one two three four five six", "[hidden] [hidden]"),
        ("Be brief.", None, "Be brief."),
    ],
)  # fmt: skip
def test_targets_and_quotations_of_five_words_are_hidden(text: str, target: object, result: str) -> None:
    assert hidden(text, target) == result


def test_what_the_prompt_shows_is_no_secret() -> None:
    """Else a rule about the labels of a classification would be all holes."""
    template = "Answer positive or negative. Write one two three four five."
    assert hidden("Never say Positive.", "positive", template) == "Never say Positive."
    assert hidden("so one two three four five it is", "zero one two three four five six", template) == (
        "so one two three four five it is"
    )


def test_texts_stay_apart_and_in_order() -> None:
    texts = ["Paris", "", "a\x00b Paris", "x"]
    assert hide_targets(texts, [sample("Paris"), sample(None)], "") == ["[hidden]", "", "a b [hidden]", "x"]
    assert hide_targets([], [sample("Paris")], "") == []
