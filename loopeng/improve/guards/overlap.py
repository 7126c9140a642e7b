"""A rule must not give answers away: no whole target in it, no run of words or characters from what it is tested on.

What the model is told anyway (the template, the current rules, the unrendered parameters of the evaluators) is no
secret, and neither is what at least three samples have as their target: that is a label, not an answer. Reasons name
the sample and never quote it, for a reflector may read them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from loopeng.improve.guards.candidate import Candidate
from loopeng.improve.guards.folding import (
    Reading,
    literal_pattern,
    literal_text,
    may_stand_in,
    readings_of_rule,
    readings_of_target,
)
from loopeng.improve.guards.shared_runs import RuleRuns, Views
from loopeng.schema import Rule, Sample, Task

__all__ = ["overlap"]

_MIN_TARGET_CHARS = 3
_SHARED_BY = 3  # samples; what so many have as their target is a label
_TEMPLATE_CODE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)
_SLACK = 64  # characters that a target may lose in a reading, beside half of all: punctuation, names of units


@dataclass(frozen=True)
class _Text:
    """A text that a rule must not repeat, and where it stands."""

    text: str
    sample: Sample
    what: str  # "target", or the name of an input

    @property
    def place(self) -> str:
        return f"the {self.what} of sample {self.sample.id!r} ({self.sample.split})"


def overlap(candidate: Candidate) -> str | None:
    """No new rule repeats a whole target of three characters or more, or 5 words or 32 characters of what is tested.

    Tested are all targets, and the inputs of the gate and hold-out samples.
    """
    new_rules = candidate.new_rules
    if not new_rules:
        return None
    targets = _secret_targets(candidate.task)
    public = _Public(candidate)
    for number, rule in new_rules:
        if found := _whole_target(rule, targets, public):
            return (
                f"rule {number} repeats {found.place}; say what to do, not what the answer is (a label that the model "
                "may know can stand in the template or in an evaluator's parameters)"
            )
    inputs = _tested_inputs(candidate.task.samples)
    runs = [(number, RuleRuns(rule.text, public.texts)) for number, rule in new_rules]
    for text in (*targets, *inputs):
        views = Views.of(text.text)
        for number, rule_runs in runs:
            if shared := rule_runs.shared_with(views):
                return f"rule {number} shares {shared} with {text.place}; say it without the sample's words"
    return None


class _Public:
    """What is known without the samples: template, current rules, the parameters of the evaluators."""

    def __init__(self, candidate: Candidate) -> None:
        template = _TEMPLATE_CODE.sub("\n", candidate.base.template)
        params = [text for spec in candidate.task.evaluators for text in _texts_in(spec.params, with_keys=True)]
        self._fixed = [template, *(_TEMPLATE_CODE.sub("\n", text) for text in params)]
        self._rules = {rule.id: rule.text for rule in candidate.base.rules}
        self.texts = [*self._fixed, *self._rules.values()]

    @cached_property
    def _needed(self) -> list[_Haystack]:
        return [_Haystack(text) for text in self._fixed]

    def has(self, target: _Needle, rule: Rule) -> bool:
        """Whether a target is literally in the template or a parameter, or in the rule that is being reworded."""
        earlier = self._rules.get(rule.id)
        return any(text.holds(target) for text in self._needed) or (
            earlier is not None and _Haystack(earlier).holds(target)
        )


class _Needle:
    """A target to look for."""

    def __init__(self, text: str) -> None:
        self.readings = readings_of_target(text)
        is_short = not self.readings and len(text.strip()) >= _MIN_TARGET_CHARS
        self.pattern = literal_pattern(text) if is_short else None


class _Haystack:
    """A text to look in."""

    def __init__(self, text: str) -> None:
        self.readings: list[Reading] = readings_of_rule(text)
        self.literal = literal_text(text)
        self._compacts = "\0".join(reading.compact for reading in self.readings)
        self._longest = max(len(reading.compact) for reading in self.readings)

    def holds(self, needle: _Needle) -> bool:
        if needle.pattern is not None:
            return bool(needle.pattern.search(self.literal))
        return any(mine.holds(theirs) for mine in self.readings for theirs in needle.readings)

    def may_hold(self, text: str) -> bool:
        """False where a text is too long for this one, or its letters do not stand here; saves most of the work."""
        too_long = len(text) > self._longest and sum(map(len, text.split())) > 2 * self._longest + _SLACK
        return not too_long and may_stand_in(text, self._compacts)


def _whole_target(rule: Rule, targets: Sequence[_Text], public: _Public) -> _Text | None:
    haystack = _Haystack(rule.text)
    for target in targets:
        if haystack.may_hold(target.text):
            needle = _Needle(target.text)
            if haystack.holds(needle) and not public.has(needle, rule):
                return target
    return None


def _secret_targets(task: Task) -> list[_Text]:
    """Every text in a target, each once, without those that at least three samples share."""
    samples: dict[str, dict[str, Sample]] = {}
    first: dict[str, _Text] = {}
    for sample in task.samples:
        for text in _target_texts(sample.target):
            key = " ".join(text.casefold().split()).strip(" .!?;:\"'")
            samples.setdefault(key, {})[sample.id] = sample
            first.setdefault(key, _Text(text, sample, "target"))
    return [text for key, text in first.items() if len(samples[key]) < _SHARED_BY]


def _target_texts(target: Any) -> Iterator[str]:
    """A target as text and, where it is nested or JSON, every value in it."""
    if isinstance(target, str):
        yield target
        if target.lstrip()[:1] in ("{", "["):
            try:
                target = json.loads(target)
            except (ValueError, RecursionError):
                return
    elif target is not None:
        yield json.dumps(target, ensure_ascii=False, default=str)
    if isinstance(target, Mapping | list | tuple):
        yield from _texts_in(target)


def _tested_inputs(samples: Sequence[Sample]) -> list[_Text]:
    found: dict[str, _Text] = {}
    for sample in samples:
        if sample.split != "reflect":
            for name, value in sample.inputs.items():
                for text in _texts_in(value):
                    found.setdefault(text, _Text(text, sample, f"input {name!r}"))
    return list(found.values())


def _texts_in(value: Any, *, with_keys: bool = False) -> Iterator[str]:
    """Texts and numbers at any depth; truth values say nothing alone."""
    if isinstance(value, Mapping):
        if with_keys:
            yield from map(str, value)
        for each in value.values():
            yield from _texts_in(each, with_keys=with_keys)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts_in(each, with_keys=with_keys)
    elif value is not None and not isinstance(value, bool):
        yield str(value)
