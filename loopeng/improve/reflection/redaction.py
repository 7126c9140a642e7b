"""What a reflector must not read: the expected answers. What it reads could end up in the prompt."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from loopeng.evaluators.base import HIDDEN, hide, redact
from loopeng.schema import Attempt, Sample

__all__ = ["hide_targets", "redacted_example"]

_BETWEEN = "\x00"
_RUN_LENGTH = 5  # so many words in a row are a quotation
_WORD = re.compile(r"\w+")


def redacted_example(sample: Sample, attempt: Attempt) -> tuple[Sample, Attempt]:
    """A failing example without its target: not in the sample, the answer or the feedback.

    A result's reason and metadata are for people and may hold the target; they are left out.
    """
    results = tuple(
        result.model_copy(update={"reason": "", "metadata": {}, "feedback": redact(result.feedback, sample, attempt)})
        for result in attempt.results
    )
    shown = {"results": results, "text": redact(attempt.text, sample, attempt), "token_ids": None, "trajectory": None}
    return sample.model_copy(update={"target": None}), attempt.model_copy(update=shown)


def hide_targets(texts: Sequence[str], samples: Iterable[Sample], shown: str) -> list[str]:
    """Texts that belong to no sample, without any sample's target and without five words in a row out of one.

    What stands in ``shown``, the prompt, is no secret.
    """
    targets = [sample.target for sample in samples if sample.target is not None]
    if not texts or not targets:
        return list(texts)
    joined = hide(_BETWEEN.join(text.replace(_BETWEEN, " ") for text in texts), targets, [shown])
    runs = {run for target in targets for run in _runs(_words(str(target)))} - set(_runs(_words(shown)))
    return [_without_runs(text, runs) for text in joined.split(_BETWEEN)]


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _runs(words: Sequence[str]) -> list[tuple[str, ...]]:
    return [tuple(words[start : start + _RUN_LENGTH]) for start in range(len(words) - _RUN_LENGTH + 1)]


def _without_runs(text: str, secret: set[tuple[str, ...]]) -> str:
    spans = [match.span() for match in _WORD.finditer(text)]
    runs = _runs([text[start:end].casefold() for start, end in spans])
    covered = {first + step for first, run in enumerate(runs) if run in secret for step in range(_RUN_LENGTH)}
    pieces, position = [], 0
    for index, (start, end) in enumerate(spans):
        if index in covered:
            pieces += [] if index - 1 in covered else [text[position:start], HIDDEN]
            position = end
    return "".join([*pieces, text[position:]])
