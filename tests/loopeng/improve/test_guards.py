from __future__ import annotations

from collections.abc import Callable

import pytest

from loopeng.improve.guards import Candidate, inspect_rules
from loopeng.improve.rules import apply_operations
from loopeng.prompts import text_hash
from loopeng.schema import PromptVersion, RuleOperation, Task, utc_now
from loopeng.schema.task import ImproveSpec

TEMPLATE = "Describe {{ product }}{{ rules }}"


@pytest.fixture
def candidate(make_task: Callable[..., Task]) -> Callable[..., Candidate]:
    def make(*texts: str, base_texts: tuple[str, ...] = (), template: str = TEMPLATE, **rest: object) -> Candidate:
        base_rules = apply_operations((), [RuleOperation(op="add", text=text) for text in base_texts])
        base = PromptVersion(
            id="ver-1", prompt_name="describe", number=1, template=template, rules=base_rules,
            text_hash=text_hash(template, base_rules), source="task file", created_by="ana", created_at=utc_now(),
        )  # fmt: skip
        rules = apply_operations(base_rules, [RuleOperation(op="add", text=text) for text in texts])
        task = make_task(improve=ImproveSpec(max_rules=3, max_prompt_chars=120))
        return Candidate(task=task, base=base, rules=rules, rejected=rest.get("rejected", {}))  # type: ignore[arg-type]

    return make


def findings(candidate: Candidate) -> list[str]:
    return [f"{finding.guard}: {finding.reason}" for finding in inspect_rules(candidate)]


def test_a_plain_new_rule_passes(candidate: Callable[..., Candidate]) -> None:
    assert findings(candidate("Write one sentence.", base_texts=("Be kind.",))) == []


@pytest.mark.parametrize("text", ["Name {{ product }}.", "{% if x %}", "{# hidden #}", "close }} it"])
def test_template_delimiters_have_no_place_in_a_rule(candidate: Callable[..., Candidate], text: str) -> None:
    (finding,) = findings(candidate(text))
    assert finding.startswith("placeholders: a rule contains")


def test_braces_alone_are_text(candidate: Callable[..., Candidate]) -> None:
    assert findings(candidate('Answer as {"name": 1}.')) == []


def test_a_template_without_a_place_for_rules(candidate: Callable[..., Candidate]) -> None:
    assert findings(candidate("Be kind.", template="Describe {{ product }}")) == [
        "placeholders: the template has no {{ rules }}, so rules have no place in it"
    ]


def test_too_many_rules_and_too_long_a_prompt(candidate: Callable[..., Candidate]) -> None:
    assert "improve.max_rules" in findings(candidate("a b", "c d", "e f", "g h"))[0]
    assert "improve.max_prompt_chars" in findings(candidate("word " * 30))[0]


def test_duplicates(candidate: Callable[..., Candidate]) -> None:
    assert "stands twice" in findings(candidate("write ONE  sentence", base_texts=("Write one sentence.",)))[0]
    assert "nothing would change" in findings(candidate(base_texts=("Be kind.",)))[0]
    rejected = {text_hash(TEMPLATE, ["Be kind."]): "too vague"}
    assert "rejected before: 'too vague'" in findings(candidate("Be kind.", rejected=rejected))[0]
