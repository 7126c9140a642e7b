"""Answers that do nothing, and the targets as answers: what they score says what the evaluators are worth."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from loopeng.checking.trying import Bench
from loopeng.prompts import PromptTemplate
from loopeng.schema import EvalResult, Sample

__all__ = ["Baseline", "Baselines", "TargetTrial", "target_text", "try_baselines"]

_SHRUG = "I do not know."
_SHOWN = 40


@dataclass(frozen=True)
class Baseline:
    """One answer given to every sample that was tried."""

    name: str
    is_guess: bool  # the most frequent target: it is right where it is right
    passed: tuple[str, ...]  # samples that pass as a whole
    score: float | None  # mean over the samples that could be judged
    by_evaluator: dict[str, int]  # samples each evaluator passes


@dataclass(frozen=True)
class TargetTrial:
    """What one evaluator says of the samples' targets, each given as the answer."""

    evaluator: str
    num_tried: int
    failed: tuple[str, ...]  # samples
    reason: str  # of the first that failed


@dataclass(frozen=True)
class Baselines:
    """Everything that was tried. ``errors``: by evaluator, the samples it could not judge, and the first error.

    ``never`` are the evaluators that could judge nothing at all, those that only watch left out.
    """

    num_samples: int
    baselines: tuple[Baseline, ...]
    targets: tuple[TargetTrial, ...]
    errors: dict[str, tuple[tuple[str, ...], str]]
    never: frozenset[str] = frozenset()


def try_baselines(bench: Bench) -> Baselines:
    """Judge an empty answer, the prompt itself, one constant answer, and the targets."""
    template = PromptTemplate(bench.task.template)
    constant, is_guess = _constant(bench.task.samples)
    answers: list[tuple[str, bool, Callable[[Sample], str]]] = [
        ("an empty answer", False, lambda sample: ""),
        ("the prompt itself", False, lambda sample: template.render(sample.inputs)),
        (f"always {_quoted(constant)}" if is_guess else repr(constant), is_guess, lambda sample: constant),
    ]
    errors: dict[str, dict[str, str]] = {}
    able: set[str] = set()
    baselines = []
    for name, guess, answer in answers if bench.tried else ():
        judged = {sample.id: bench.judge(sample, answer(sample)) for sample in bench.samples}
        _note_errors(errors, able, judged)
        baselines.append(_baseline(bench, name, guess, judged))
    with_target = [sample for sample in bench.samples if sample.target is not None]
    of_targets = {sample.id: bench.judge(sample, target_text(sample.target)) for sample in with_target}
    _note_errors(errors, able, of_targets)
    return Baselines(
        num_samples=len(bench.samples),
        baselines=tuple(baselines),
        targets=_target_trials(bench, of_targets),
        errors={name: (tuple(by_id), next(iter(by_id.values()))) for name, by_id in errors.items()},
        never=frozenset(errors.keys() - able - bench.task.watching),
    )


def target_text(target: Any) -> str:
    """A target as a model would write it: text as it is, anything else as JSON.

    >>> target_text("billing"), target_text({"order": None})
    ('billing', '{"order": null}')
    """
    return target if isinstance(target, str) else json.dumps(target, ensure_ascii=False, default=str)


def _constant(samples: Sequence[Sample]) -> tuple[str, bool]:
    """The most frequent target, where one comes twice at least: the best that an answer blind to the input can do."""
    targets = Counter(target_text(sample.target) for sample in samples if sample.target is not None)
    if targets and (most := targets.most_common(1)[0])[1] > 1:
        return most[0], True
    return _SHRUG, False


def _quoted(text: str) -> str:
    line = " ".join(text.split())
    return repr(line if len(line) <= _SHOWN else line[: _SHOWN - 3] + "...")


def _note_errors(errors: dict[str, dict[str, str]], able: set[str], judged: dict[str, tuple[EvalResult, ...]]) -> None:
    for sample_id, results in judged.items():
        for result in results:
            if result.error is None:
                able.add(result.evaluator)
            else:
                errors.setdefault(result.evaluator, {}).setdefault(sample_id, result.error)


def _baseline(bench: Bench, name: str, is_guess: bool, judged: dict[str, tuple[EvalResult, ...]]) -> Baseline:
    verdicts = {sample_id: bench.verdict(results) for sample_id, results in judged.items()}
    scores = [score for _, score in verdicts.values() if score is not None]
    passes = Counter(result.evaluator for results in judged.values() for result in results if result.passed)
    return Baseline(
        name=name,
        is_guess=is_guess,
        passed=tuple(sample_id for sample_id, (verdict, _) in verdicts.items() if verdict == "pass"),
        score=sum(scores) / len(scores) if scores else None,
        by_evaluator={each.id: passes[each.id] for each in bench.tried},
    )


def _target_trials(bench: Bench, judged: dict[str, tuple[EvalResult, ...]]) -> tuple[TargetTrial, ...]:
    if not judged:
        return ()
    trials = []
    for place, evaluator in enumerate(bench.tried):
        results = {sample_id: each[place] for sample_id, each in judged.items()}
        failed = {sample_id: result.reason for sample_id, result in results.items() if result.passed is False}
        num_judged = sum(result.error is None for result in results.values())
        trials.append(TargetTrial(evaluator.id, num_judged, tuple(failed), next(iter(failed.values()), "")))
    return tuple(trials)
