"""Anchors: items that people labelled, judged anew in every run: a judge is known by how far it agrees."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from loopeng.errors import BudgetStop, TaskError
from loopeng.evaluators.base import CheckError, EvaluatorParams
from loopeng.evaluators.judge.asking import Asker
from loopeng.evaluators.judge.criteria import Criterion
from loopeng.schema import AnchorReport, CriterionAgreement, JudgeUsage, Sample
from loopeng.validation import did_you_mean, validated
from loopeng.yaml_lines import read_text

__all__ = ["Anchor", "cohens_kappa", "load_anchors", "report_anchors"]

_Label = Literal["pass", "fail"] | int


class Anchor(EvaluatorParams):
    """An answer with the verdicts of people. Where there is one criterion, ``expect`` may be its verdict alone."""

    answer: str
    expect: _Label | dict[str, _Label] = Field(description="By criterion: pass, fail, or a value of its scale.")
    inputs: dict[str, Any] = Field({}, description="The sample's fields.")
    target: Any = Field(None, description="The expected answer, where criteria or the reference name it.")


@dataclass(frozen=True)
class _Item:
    """An anchor, ready to be judged."""

    sample: Sample
    answer: str
    passed: Mapping[str, bool]  # what people said, by criterion


@dataclass(frozen=True)
class _Row:
    """An anchor as it is written, and where."""

    number: int
    fields: Any
    file: str | None = None
    line: int | None = None

    def wrong(self, message: str, suggestion: str | None = None) -> TaskError:
        return TaskError(f"anchor {self.number}: {message}", file=self.file, line=self.line, suggestion=suggestion)


def load_anchors(
    source: str | Sequence[Mapping[str, Any]], criteria: Sequence[Criterion], base_dir: Path | None
) -> list[_Item]:
    """Anchors from a file or as they are. Raises TaskError with the place of what is wrong."""
    if isinstance(source, str):
        rows = _read((base_dir or Path()) / source)
    else:
        rows = [_Row(number, fields) for number, fields in enumerate(source, start=1)]
    return [_item(row, criteria) for row in rows]


def _read(path: Path) -> list[_Row]:
    if path.suffix.lower() not in (".jsonl", ".ndjson"):
        raise TaskError(f"anchors: {path.name!r} is no .jsonl file", suggestion="one JSON object a line")
    rows: list[_Row] = []
    for line, text in enumerate(read_text(path).split("\n"), start=1):
        if text.strip():
            try:
                rows.append(_Row(len(rows) + 1, json.loads(text), str(path), line))
            except (ValueError, RecursionError) as error:
                raise TaskError(f"not JSON: {error}", file=str(path), line=line) from None
    if not rows:
        raise TaskError("there are no anchors in it", file=str(path))
    return rows


def _item(row: _Row, criteria: Sequence[Criterion]) -> _Item:
    anchor = validated(Anchor, row.fields)
    if isinstance(anchor, list):
        raise row.wrong(anchor[0].message, anchor[0].suggestion)
    by_id, expect = {each.id: each for each in criteria}, anchor.expect
    if not isinstance(expect, dict):
        if len(by_id) > 1:
            raise row.wrong("'expect' must name the criteria", f"as in {{{criteria[0].id}: pass}}")
        expect = {criteria[0].id: expect}
    if not expect:
        raise row.wrong("'expect' is empty")
    for name, label in expect.items():
        if name not in by_id:
            hint = did_you_mean(name, by_id) or f"there is: {', '.join(by_id)}"
            raise row.wrong(f"there is no criterion {name!r}", hint)
        if label not in ("pass", "fail", *by_id[name].values):
            raise row.wrong(f"{label!r} is no verdict on {name!r}", f"one of {', '.join(map(str, by_id[name].values))}")
    sample = Sample(id=f"anchor-{row.number}", inputs=anchor.inputs, target=anchor.target, split="gate")
    return _Item(sample, anchor.answer, {name: by_id[name].passes(label) for name, label in expect.items()})


def report_anchors(
    evaluator: str,
    items: Sequence[_Item],
    criteria: Sequence[Criterion],
    min_agreement: float,
    judge: Callable[[Sample, str], tuple[Mapping[str, bool], Asker]],
) -> AnchorReport:
    """Judge every item and compare. What breaks is counted, but for BudgetStop."""
    pairs: dict[str, list[tuple[bool, bool]]] = {each.id: [] for each in criteria}
    usage, errors = JudgeUsage(), []
    for item in items:
        try:
            judged, asker = judge(item.sample, item.answer)
        except BudgetStop:
            raise
        except CheckError as error:
            errors.append(str(error))
            usage += JudgeUsage.of(error.metadata) or JudgeUsage()
        except Exception as error:  # noqa: BLE001  an engine may be anybody's code
            errors.append(f"{type(error).__name__}: {error}")
        else:
            usage += asker.usage
            for name, passed in item.passed.items():
                pairs[name].append((passed, judged[name]))
    named = {name for item in items for name in item.passed}
    return AnchorReport(
        evaluator=evaluator,
        num_anchors=len(items),
        num_errors=len(errors),
        first_error=errors[0] if errors else None,
        criteria=tuple(_agreement(each.id, pairs[each.id]) for each in criteria if each.id in named),
        min_agreement=min_agreement,
        usage=usage,
    )


def _agreement(criterion: str, pairs: Sequence[tuple[bool, bool]]) -> CriterionAgreement:
    num_agreed = sum(one == other for one, other in pairs)
    return CriterionAgreement(
        criterion=criterion, num_items=len(pairs), num_agreed=num_agreed, kappa=cohens_kappa(pairs)
    )


def cohens_kappa(pairs: Sequence[tuple[bool, bool]]) -> float | None:
    """Agreement beyond what chance would give to two who say yes as often as these do (Cohen 1960).

    None without items, and where both say the same of all of them: chance would agree on everything then.

    >>> cohens_kappa([(True, True), (True, False), (False, False), (False, False)]), cohens_kappa([(True, True)])
    (0.5, None)
    """
    count = len(pairs)
    yes, other_yes = sum(one for one, _ in pairs), sum(other for _, other in pairs)
    by_chance = yes * other_yes + (count - yes) * (count - other_yes)  # of count * count
    agreed = sum(one == other for one, other in pairs) * count
    return None if by_chance == count * count else (agreed - by_chance) / (count * count - by_chance)
