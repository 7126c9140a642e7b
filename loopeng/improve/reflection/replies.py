"""Reading a model's reply to a reflection: strict, so that nothing is guessed at. Each mistake says what to mend."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from loopeng.improve.rules import CHARS_PER_TOKEN, normalise_rule
from loopeng.schema import Rule, RuleOperation
from loopeng.schema.task import ImproveSpec

__all__ = ["UnreadableReplyError", "read_reply"]

_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n?[ \t]*```", re.DOTALL)
_KEYS: dict[str, frozenset[str]] = {  # by op: what must be there; the others must not
    "add": frozenset({"text"}),
    "update": frozenset({"rule_id", "text"}),
    "remove": frozenset({"rule_id"}),
}


class UnreadableReplyError(ValueError):
    """The reply is not as asked; the message tells the model what to mend."""


def read_reply(
    text: str, rules: Sequence[Rule], limits: ImproveSpec, *, pattern_ids: Sequence[str] = ()
) -> tuple[tuple[RuleOperation, ...], str]:
    """Operations and rationale of ``{"operations": [{"op", "rule_id", "text"}], "rationale": "..."}``.

    Whitespace or one JSON fence may surround the object; a key may be null where it does not belong. Raises
    UnreadableReplyError for anything else, and for operations that do not fit the rules or the limits.

    >>> read_reply('{"operations": [{"op": "add", "text": "Be brief."}], "rationale": "long"}', (), ImproveSpec())[1]
    'long'
    """
    reply = _object(text)
    _refuse_unknown(reply, {"operations", "rationale"}, "the reply")
    entries, rationale = reply.get("operations"), reply.get("rationale") or ""
    if not isinstance(entries, list) or not entries:
        raise UnreadableReplyError('"operations" must be a list with at least one operation')
    if not isinstance(rationale, str):
        raise UnreadableReplyError('"rationale" must be a text')
    operations = tuple(
        _operation(entry, f"operation {number}", pattern_ids) for number, entry in enumerate(entries, start=1)
    )
    _refuse_what_does_not_fit(operations, rules, limits)
    return operations, " ".join(rationale.split())


def _object(text: str) -> dict[str, Any]:
    body = text.strip()
    if fenced := _FENCED.fullmatch(body):
        body = fenced[1].strip()
    if not (body.startswith("{") and body.endswith("}")):
        raise UnreadableReplyError(
            "the reply must be one JSON object and nothing else, beginning with { and ending with }"
        )
    try:
        value = json.loads(body, object_pairs_hook=_without_repetition)
        json.dumps(value, ensure_ascii=False).encode()
    except UnreadableReplyError:
        raise
    except json.JSONDecodeError as error:
        raise UnreadableReplyError(f"it is no valid JSON: {error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise UnreadableReplyError("it is no valid JSON: nested too deeply") from None
    except UnicodeEncodeError:
        raise UnreadableReplyError("it holds half a character (a lone surrogate)") from None
    except ValueError:  # a number of thousands of digits
        raise UnreadableReplyError("it is no valid JSON: a number is too long") from None
    assert isinstance(value, dict)
    return value


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise UnreadableReplyError(f"the key {json.dumps(twice)} stands twice in one object")
    return values


def _operation(entry: Any, where: str, pattern_ids: Sequence[str]) -> RuleOperation:
    if not isinstance(entry, dict):
        raise UnreadableReplyError(f"{where} must be a JSON object")
    _refuse_unknown(entry, {"op", "rule_id", "text"}, where)
    op = entry.get("op")
    if not isinstance(op, str) or op not in _KEYS:
        raise UnreadableReplyError(f'{where}: "op" must be "add", "update" or "remove"')
    for name in ("rule_id", "text"):
        value = entry.get(name)
        if name not in _KEYS[op] and value is not None:
            raise UnreadableReplyError(f'{where}: "{op}" has no "{name}"')
        if name in _KEYS[op] and not (isinstance(value, str) and value.strip()):
            raise UnreadableReplyError(f'{where}: "{op}" needs a "{name}"')
    text = " ".join(entry["text"].split()) if "text" in _KEYS[op] else None
    return RuleOperation.model_validate(
        {"op": op, "rule_id": entry.get("rule_id"), "text": text, "pattern_ids": tuple(pattern_ids)}
    )


def _refuse_unknown(found: dict[str, Any], known: set[str], where: str) -> None:
    if unknown := sorted(found.keys() - known):
        names = ", ".join(f'"{name}"' for name in sorted(known))
        raise UnreadableReplyError(f"{where} has the unknown key {json.dumps(unknown[0])}; there is only {names}")


def _refuse_what_does_not_fit(operations: Sequence[RuleOperation], rules: Sequence[Rule], limits: ImproveSpec) -> None:
    known, touched, added = {rule.id for rule in rules}, set[str](), set[str]()
    for operation in operations:
        rule_id, wording = operation.rule_id, normalise_rule(operation.text or "")
        if rule_id is not None and rule_id not in known:
            there = (
                f"there is: {', '.join(rule.id for rule in rules)}" if rules else 'there are no rules yet, so use "add"'
            )
            raise UnreadableReplyError(f"there is no rule {rule_id!r}; {there}")
        if rule_id is not None and rule_id in touched:
            raise UnreadableReplyError(f"two operations change the rule {rule_id!r}; use one")
        if wording and wording in added:
            raise UnreadableReplyError(f"two operations have the same text: {operation.text!r}")
        if operation.text is not None:
            _refuse_no_rule(operation.text, limits)
        touched |= {rule_id} if rule_id else set()
        added |= {wording} if wording else set()
    count = {op: sum(operation.op == op for operation in operations) for op in _KEYS}
    num_after = len(rules) + count["add"] - count["remove"]
    if count["add"] and num_after > max(limits.max_rules, len(rules)):  # the limit may have been lowered since
        raise UnreadableReplyError(
            f'that would make {num_after} rules, and at most {limits.max_rules} are allowed: use "update" or "remove"'
        )


def _refuse_no_rule(text: str, limits: ImproveSpec) -> None:
    longest = limits.max_rule_tokens * CHARS_PER_TOKEN
    if not any(character.isalpha() for character in text):
        raise UnreadableReplyError(f"{text!r} is no rule")
    if len(text) > longest:
        raise UnreadableReplyError(f"a rule has {len(text)} characters, and at most {longest} are allowed")
