"""Evaluator ``similarity``: how near the answer is to a reference text, by edits, shared words or embeddings."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from loopeng.errors import TaskError
from loopeng.evaluators.base import Finding
from loopeng.evaluators.matching import (
    ComparingEvaluator,
    HasTexts,
    OneOrMore,
    accepted_values,
    as_tuple,
    fold,
    uses_target,
)
from loopeng.evaluators.wording import join_words, name_of
from loopeng.ports import EvaluationContext
from loopeng.references import import_reference
from loopeng.schema import Attempt, EvaluatorSpec, Sample

__all__ = ["Similarity", "SimilarityParams", "similarity_evaluator"]

_Method = Literal["levenshtein", "rouge1", "rouge2", "rougeL", "bleu", "embeddings"]
_Measure = Callable[[str, str], float]
_LIBRARIES = {"rouge1": "rouge_score", "rouge2": "rouge_score", "bleu": "sacrebleu"}


class SimilarityParams(HasTexts):
    """What the answer is compared with, how, and what is near enough."""

    method: _Method = Field(
        description="levenshtein: share of characters that no edit touches; rouge: F1 of shared words, word pairs or "
        "the longest common run in order; bleu: of one sentence; embeddings: cosine of what 'embed' returns."
    )
    threshold: float = Field(ge=0, le=1, description="Least similarity that passes.")
    value: OneOrMore = Field("{{ target }}", description="The reference text, or a list of which the nearest counts.")
    ignore_case: bool = False
    embed: str | None = Field(None, description="method embeddings: module:function, from a list of texts to vectors.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.method == "embeddings") != (self.embed is not None):
            raise ValueError("'embed' and method: embeddings go together")
        return self

    @property
    def texts(self) -> tuple[str, ...]:
        """``value`` as a list, unrendered."""
        return as_tuple(self.value)


class Similarity(ComparingEvaluator[SimilarityParams]):
    """The answer is near enough to one of the reference texts. Score: the similarity to the nearest."""

    type_name: ClassVar[str] = "similarity"
    params_model = SimilarityParams
    plain_categories = frozenset({"similarity.too_low"})
    negated_category = "similarity.too_high"
    redacts_feedback = False  # names no value of a sample

    def __init__(self, spec: EvaluatorSpec, params: SimilarityParams, measure: _Measure) -> None:
        super().__init__(spec, params)
        self._measure = measure

    def check(self, sample: Sample, attempt: Attempt, context: EvaluationContext) -> Finding:
        answer, *references = (
            fold(text.strip(), ignore_case=self.params.ignore_case)
            for text in (attempt.text, *accepted_values(self.params.texts, sample))
        )
        score = max(min(max(self._measure(answer, each), 0.0), 1.0) if answer else 0.0 for each in references)
        passed = score >= self.params.threshold
        compared = f"{self.params.method} similarity {score:.2f}, at least {self.params.threshold:g} wanted"
        feedback = f"The answer is too far from the expected one ({compared})."
        return Finding(passed, score, compared, "similarity.too_low", feedback)

    def default_remedy(self, category: str) -> str | None:
        names = join_words([name_of(text) for text in self.params.texts], "or")
        if category == self.negated_category:
            return f"Use words of your own, not those of {names}."
        if uses_target(self.params.texts):
            return "Answer in the expected wording, and leave out everything else."
        return f"Stay close to the wording of {names}."


def similarity_evaluator(spec: EvaluatorSpec, params: SimilarityParams, base_dir: Path | None) -> Similarity:
    """An evaluator of type ``similarity``. Raises TaskError where its library or function is missing."""
    library = _LIBRARIES.get(params.method)
    if library and find_spec(library) is None:
        hint = "pip install 'loopeng[similarity]'"
        raise TaskError(f"method {params.method} needs {library}, which is not installed", suggestion=hint)
    if params.embed is not None:
        embed = import_reference(params.embed, base_dir)
        if not callable(embed):
            raise TaskError(f"{params.embed!r} is not a function")
        return Similarity(spec, params, lambda answer, reference: _cosine(*_vectors(embed, [answer, reference])))
    return Similarity(spec, params, _measure(params.method))


def _measure(method: str) -> _Measure:
    own = {"levenshtein": _levenshtein, "rougeL": _rouge_l, "bleu": _bleu}
    return own.get(method) or (lambda answer, reference: _rouge(method, answer, reference))


def _levenshtein(answer: str, reference: str) -> float:
    from rapidfuzz.distance import Levenshtein

    return Levenshtein.normalized_similarity(answer, reference)


def _bleu(answer: str, reference: str) -> float:
    from sacrebleu import sentence_bleu

    return float(sentence_bleu(answer, [reference]).score) / 100


def _rouge(kind: str, answer: str, reference: str) -> float:
    from rouge_score.rouge_scorer import RougeScorer

    return float(RougeScorer([kind], tokenizer=_Words()).score(reference, answer)[kind].fmeasure)


def _rouge_l(answer: str, reference: str) -> float:
    """As rouge-score has it, whose own table of all pairs of words takes minutes for a long text."""
    from rapidfuzz.distance import LCSseq

    given, wanted = _Words().tokenize(answer), _Words().tokenize(reference)
    return 2 * LCSseq.similarity(given, wanted) / (len(given) + len(wanted)) if given and wanted else 0.0


class _Words:
    """Words as rouge-score has them, for letters of every language: its own tokenizer knows a to z alone."""

    def tokenize(self, text: str) -> list[str]:
        return "".join(each if each.isalnum() else " " for each in text.lower()).split()


def _vectors(embed: Callable[[list[str]], Any], texts: list[str]) -> list[list[float]]:
    """One vector a text, from the user's function. Raises ValueError where they are of no use."""
    vectors = [[float(number) for number in vector] for vector in embed(texts)]
    if len(vectors) != len(texts) or len({len(vector) for vector in vectors}) != 1:
        raise ValueError(f"'embed' must return {len(texts)} vectors of one length for {len(texts)} texts")
    if not all(math.isfinite(number) for vector in vectors for number in vector):
        raise ValueError("'embed' returned a number that is not finite")
    return vectors


def _cosine(first: Sequence[float], second: Sequence[float]) -> float:
    lengths = math.hypot(*first) * math.hypot(*second)
    if not lengths:
        raise ValueError("'embed' returned a vector of length zero")
    return sum(a * b for a, b in zip(first, second, strict=True)) / lengths
