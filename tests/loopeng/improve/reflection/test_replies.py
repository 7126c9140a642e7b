from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopeng.improve.reflection.replies import UnreadableReplyError, read_reply
from loopeng.schema import Rule
from loopeng.schema.task import ImproveSpec

RULES = (Rule(id="rule-1", text="Be kind."), Rule(id="rule-2", text="Be brief."))
LIMITS = ImproveSpec(max_rules=3, max_rule_tokens=10)
ADD = '{"operations": [{"op": "add", "text": "Use\\n one sentence."}], "rationale": "too\\nlong"}'


def operations(text: str, limits: ImproveSpec = LIMITS) -> list[tuple[str, str | None, str | None]]:
    return [(each.op, each.rule_id, each.text) for each in read_reply(text, RULES, limits)[0]]


@pytest.mark.parametrize("frame", ["{}", " \n{}\n ", "```json\n{}\n```", "```\n{}\n```\n"])
def test_the_object_may_stand_in_one_fence(frame: str) -> None:
    made, rationale = read_reply(frame.replace("{}", ADD), RULES, LIMITS, pattern_ids=["pat-1"])
    assert [(each.op, each.text, each.pattern_ids) for each in made] == [("add", "Use one sentence.", ("pat-1",))]
    assert rationale == "too long"


def test_all_three_operations_and_keys_that_are_null() -> None:
    text = json.dumps(
        {
            "operations": [
                {"op": "remove", "rule_id": "rule-1", "text": None},
                {"op": "update", "rule_id": "rule-2", "text": "Be very brief."},
                {"op": "add", "rule_id": None, "text": "Be calm."},
            ]
        }
    )
    assert operations(text) == [
        ("remove", "rule-1", None),
        ("update", "rule-2", "Be very brief."),
        ("add", None, "Be calm."),
    ]


def reply(*entries: object, **more: object) -> str:
    return json.dumps({"operations": list(entries), **more})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "one JSON object and nothing else"),
        (f"Sure!\n{ADD}", "one JSON object and nothing else"),
        (f"```json\n{ADD}\n```\nI hope this helps.", "one JSON object and nothing else"),
        (f"{ADD}\n{ADD}", "no valid JSON: Extra data"),
        (ADD.replace("]", ""), "no valid JSON"),
        ('{"operations": [' + "[" * 100_000 + "}", "nested too deeply"),
        ('{"operations": [], "operations": []}', 'the key "operations" stands twice'),
        ("{}", "at least one operation"),
        (reply(), "at least one operation"),
        (reply("add"), "operation 1 must be a JSON object"),
        (reply({"op": "add", "text": "x"}, rules=[]), 'the reply has the unknown key "rules"'),
        (reply({"op": "add", "text": "x", "id": 1}), 'operation 1 has the unknown key "id"'),
        (reply({"op": "replace", "text": "x"}), '"op" must be "add", "update" or "remove"'),
        (reply({"op": ["add"], "text": "x"}), '"op" must be'),
        (reply({"op": "add", "text": " "}), '"add" needs a "text"'),
        (reply({"op": "add", "text": 3}), '"add" needs a "text"'),
        (reply({"op": "add", "text": "..."}), "'...' is no rule"),
        (reply({"op": "add", "text": "x", "rule_id": "rule-1"}), '"add" has no "rule_id"'),
        (reply({"op": "update", "text": "x"}), '"update" needs a "rule_id"'),
        (reply({"op": "remove", "rule_id": "rule-1", "text": "x"}), '"remove" has no "text"'),
        (reply({"op": "remove", "rule_id": "rule-9"}), "no rule 'rule-9'; there is: rule-1, rule-2"),
        (
            reply({"op": "update", "rule_id": "rule-1", "text": "x"}, {"op": "remove", "rule_id": "rule-1"}),
            "two operations change the rule 'rule-1'",
        ),
        (reply({"op": "add", "text": "Be calm"}, {"op": "add", "text": "be calm."}), "two operations have the same"),
        (reply({"op": "add", "text": "a"}, {"op": "add", "text": "b"}), "would make 4 rules, and at most 3"),
        (reply({"op": "add", "text": "word " * 9}), "44 characters, and at most 40"),
        ('{"operations": [{"op": "add", "text": "Be \\ud83d brief."}]}', "half a character"),
        ('{"operations": ' + "1" * 5000 + "}", "a number is too long"),
        (reply({"op": "add", "text": "x"}, rationale=["y"]), '"rationale" must be a text'),
    ],
)
def test_nothing_is_guessed_at(text: str, message: str) -> None:
    with pytest.raises(UnreadableReplyError) as caught:
        read_reply(text, RULES, LIMITS)
    assert message in str(caught.value)


def test_a_prompt_without_rules_can_only_add() -> None:
    with pytest.raises(UnreadableReplyError, match='no rules yet, so use "add"'):
        read_reply(reply({"op": "remove", "rule_id": "rule-1"}), (), LIMITS)


def test_a_full_list_may_be_reworded_and_exchanged() -> None:
    full = ImproveSpec(max_rules=2)
    assert operations(reply({"op": "update", "rule_id": "rule-1", "text": "x"}), full)
    assert operations(reply({"op": "remove", "rule_id": "rule-1"}, {"op": "add", "text": "x"}), full)
    with pytest.raises(UnreadableReplyError, match='use "update" or "remove"'):
        operations(reply({"op": "add", "text": "x"}), full)


@given(st.text(alphabet='{}[]":,`\n jsonaddoptext', max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        made, _ = read_reply(text, RULES, LIMITS)
    except UnreadableReplyError:
        return
    assert made
