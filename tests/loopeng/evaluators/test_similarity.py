from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from loopeng.errors import TaskError
from loopeng.evaluators import build_evaluators, run_evaluators
from tests.loopeng.evaluators.conftest import Judge, make_attempt, make_sample

METHODS = ["levenshtein", "rouge1", "rouge2", "rougeL", "bleu"]
SENTENCE = "the quick brown fox jumps over the lazy dog"


def letter_counts(texts: list[str]) -> list[list[float]]:
    return [[float(text.count(letter)) for letter in "abc"] for text in texts]


def one_vector_short(texts: list[str]) -> list[list[float]]:
    return letter_counts(texts)[1:]


def not_finite(texts: list[str]) -> list[list[float]]:
    return [[float("nan")] for _ in texts]


@pytest.mark.parametrize("method", METHODS)
def test_the_same_text_is_1_and_another_is_near_0(method: str, judge: Judge) -> None:
    keys = {"type": "similarity", "method": method, "threshold": 0.9, "target": SENTENCE}
    assert judge(f" {SENTENCE}\n", **keys).score == pytest.approx(1)
    assert judge(SENTENCE, **keys).passed
    far = judge("zzz", **keys)
    assert (far.passed, far.category) == (False, "similarity.too_low")
    assert far.score is not None and far.score < 0.1
    assert judge("", **keys).score == 0
    near = judge(SENTENCE.replace("quick", "slow"), **keys)
    assert near.score is not None and far.score < near.score < 1


def test_scores_by_hand(judge: Judge) -> None:
    def score(method: str, answer: str, reference: str) -> float | None:
        return judge(answer, type="similarity", method=method, threshold=0.5, target=reference).score

    assert score("levenshtein", "kitten", "sitting") == pytest.approx(1 - 3 / 7)
    assert score("rouge1", "the cat sat", "the cat was here") == pytest.approx(2 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4))
    assert score("rouge2", "the cat sat", "the cat was here") == pytest.approx(2 * (1 / 2) * (1 / 3) / (1 / 2 + 1 / 3))
    assert score("rougeL", "sat the cat", "the cat sat") == pytest.approx(2 / 3)
    # n-gram precisions 5/6, 3/5, 1/4 and 0 of 3, which the usual smoothing makes 1/2 of 1/3
    expected = (5 / 6 * 3 / 5 * 1 / 4 * 1 / 6) ** 0.25
    assert score("bleu", "the cat sat on my mat", "the cat is on my mat") == pytest.approx(expected)


@settings(max_examples=40, deadline=None)
@given(st.text("abc AB1-,."), st.text("abc AB1-,."))
def test_rouge_is_that_of_its_library_on_plain_letters(answer: str, reference: str) -> None:
    if not answer.strip() or not reference.strip():
        return
    spec = {"id": "it", "type": "similarity", "method": "rougeL", "threshold": 0.5}
    result = run_evaluators(build_evaluators([spec]), make_sample(reference), make_attempt(answer))[0]
    assert result.score == pytest.approx(RougeScorer(["rougeL"]).score(reference, answer)["rougeL"].fmeasure)


def test_rouge_knows_letters_of_other_languages(judge: Judge) -> None:
    keys = {"type": "similarity", "method": "rouge1", "threshold": 0.5, "target": "кошка сидит"}
    assert judge("Кошка спит", **keys).score == 0.5


def test_the_nearest_reference_counts(judge: Judge) -> None:
    keys = {"type": "similarity", "method": "levenshtein", "threshold": 0.9}
    assert judge("blue", value=["red", "blue"], **keys).passed
    assert judge("blue", target=["red", "blue"], **keys).passed
    assert judge("BLUE", value=["red", "blue"], **keys).score == 0
    assert judge("BLUE", value=["red", "blue"], ignore_case=True, **keys).passed


def test_similarity_says_how_far_and_not_the_reference(judge: Judge) -> None:
    result = judge("kitten", type="similarity", method="levenshtein", threshold=0.75, target="sitting")
    assert result.reason == "levenshtein similarity 0.57, at least 0.75 wanted"
    assert result.feedback == f"The answer is too far from the expected one ({result.reason})."
    assert result.remedy == "Answer in the expected wording, and leave out everything else."
    copied = judge("mug", type="similarity", method="levenshtein", threshold=0.9, value="mug", negate=True)
    assert (copied.category, copied.remedy) == ("similarity.too_high", 'Use words of your own, not those of "mug".')


def test_embeddings_come_from_a_function_of_the_users(judge: Judge) -> None:
    keys = {"type": "similarity", "method": "embeddings", "threshold": 0.9, "embed": f"{__name__}:letter_counts"}
    assert judge("abab", target="ab", **keys).score == pytest.approx(1)
    assert judge("aab", target="ab", **keys).score == pytest.approx(3 / 10**0.5)
    assert judge("c", target="ab", **keys).score == 0
    assert judge("xyz", target="ab", **keys).error == "ValueError: 'embed' returned a vector of length zero"
    for function, message in {"one_vector_short": "2 vectors of one length", "not_finite": "not finite"}.items():
        assert message in str(judge("a", target="ab", **{**keys, "embed": f"{__name__}:{function}"}).error)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"method": "bleu"}, "threshold is missing"),
        ({"method": "cosine", "threshold": 0.5}, "method must be 'levenshtein'"),
        ({"method": "embeddings", "threshold": 0.5}, "'embed' and method: embeddings go together"),
        ({"method": "bleu", "threshold": 0.5, "embed": "a:b"}, "'embed' and method: embeddings go together"),
        ({"method": "embeddings", "threshold": 0.5, "embed": "no_such_module:f"}, "there is no module"),
        ({"method": "embeddings", "threshold": 0.5, "embed": "math:pi"}, "'math:pi' is not a function"),
    ],
)
def test_keys_that_cannot_work_are_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(TaskError, match=message):
        build_evaluators([{"id": "it", "type": "similarity", **keys}])


@pytest.mark.parametrize(("method", "library"), [("bleu", "sacrebleu"), ("rouge2", "rouge_score")])
def test_a_library_that_is_missing_is_said_before_the_run(
    method: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)  # as Python itself marks what cannot be imported
    with pytest.raises(TaskError, match=f"method {method} needs {library}, which is not installed") as error:
        build_evaluators([{"id": "it", "type": "similarity", "method": method, "threshold": 0.5}])
    assert "pip install 'loopeng[similarity]'" in str(error.value)


def test_a_long_text_is_compared_without_a_table_of_all_pairs(judge: Judge) -> None:
    answer = " ".join(str(number % 977) for number in range(20_000))
    keys = {"type": "similarity", "method": "rougeL", "threshold": 0.5}
    assert judge(answer, target=f"{answer} {answer}", **keys).score == pytest.approx(2 / 3)
