"""Evaluator ``tool_calls``: which tools an agent called, with what, and in what order.

An agent returns its trajectory with its answer: ``AgentResult(text=..., trajectory=...)``. It may be

- calls as plain data: ``[{"name": "search", "args": {"query": "mugs"}}, ...]``
- messages as chat servers have them: ``[{"role": "assistant", "tool_calls": [{"function": {"name": ...}}]}, ...]``,
  with ``tool_use`` parts in their content (Anthropic), or items of type ``function_call`` between them (OpenAI)
- messages of LangChain as data, from ``message.model_dump()`` or ``messages_to_dict``
- a mapping with one of these under ``messages``

Only the calls in it are compared. The expected list has the same forms; a name alone, and a call without ``args``,
leave the arguments open.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from loopeng.evaluators.base import TARGET, EvaluatorParams, Finding, TypedEvaluator, placeholders_in, redact
from loopeng.evaluators.call_matching import ArgsMode, ToolCall, args_match, count_in_order, match_calls
from loopeng.evaluators.wording import join_words, quoted
from loopeng.ports import EvaluationContext
from loopeng.schema import Attempt, Sample

__all__ = ["ToolCalls", "ToolCallsParams", "calls_in"]

_Mode = Literal["strict", "unordered", "subset", "superset"]
_FIELD = r"\{\{\s*(\w+)\s*\}\}"
_MESSAGE_KEYS = frozenset(("content", "role", "tool_calls", "function_call"))
_ARGUMENTS = ("args", "arguments", "input")
_NO_CALLS = frozenset(("function_call_output", "item_reference", "reasoning", "text", "thinking", "tool_result"))


class ToolCallsParams(EvaluatorParams):
    """The calls an agent should make, and how closely."""

    value: str | tuple[str | dict[str, Any], ...] = Field(
        "{{ target }}", description="The expected calls; or the one field of the sample that holds them, or its target."
    )
    mode: _Mode = Field(
        "strict",
        description="strict: these calls in this order, those of one message too; unordered: in any order; "
        "subset: none but these; superset: at least these.",
    )
    args: ArgsMode = Field("exact", description="How arguments are compared; subset: none but the expected ones.")
    args_of: dict[str, ArgsMode] = Field({}, description="The same for single tools, by name.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not isinstance(self.value, str):
            calls_in(list(self.value), expected=True)
        elif not re.fullmatch(_FIELD, self.value.strip()):
            raise ValueError(f"value must be a list of calls or one {{{{ field }}}}, not {self.value!r}")
        return self

    @property
    def field(self) -> str | None:
        """The field of the sample that holds the calls; None where they are given here."""
        found = re.fullmatch(_FIELD, self.value.strip()) if isinstance(self.value, str) else None
        return found[1] if found else None


@dataclass(frozen=True)
class _Difference:
    """What is wrong, as a category's last word, and the tools that it is about."""

    what: Literal["missing", "extra", "args", "order"]
    tools: tuple[str, ...]


class ToolCalls(TypedEvaluator[ToolCallsParams]):
    """The agent called the expected tools. An attempt without a trajectory cannot be judged: an error.

    Score: the share of calls that match, of those made and those expected (in order where that counts); for ``subset``
    of those made alone, for ``superset`` of those expected alone.
    """

    type_name: ClassVar[str] = "tool_calls"
    params_model = ToolCallsParams
    plain_categories = frozenset(f"tool_calls.{what}" for what in ("args", "extra", "missing", "order"))
    negated_category = "tool_calls.match"
    redacts_feedback = False  # it does so itself, where tools are the sample's

    @property
    def placeholders(self) -> frozenset[str]:
        return placeholders_in(self.params.value) if isinstance(self.params.value, str) else frozenset()

    @property
    def reads_text_alone(self) -> bool:
        return False

    def check(self, sample: Sample, attempt: Attempt, context: EvaluationContext) -> Finding:
        if attempt.trajectory is None:
            hint = "the agent must return AgentResult(text=..., trajectory=[...])"
            raise ValueError(f"the attempt has no trajectory: {hint}")
        made = calls_in(attempt.trajectory)
        expected = self._expected(sample)
        score, difference = self._compare(made, expected)
        metadata = {"num_calls": len(made), "num_expected": len(expected)}
        if difference is None:
            return Finding(True, 1.0, f"the tool calls match ({self.params.mode})", metadata=metadata)
        what, tools = difference.what, quoted(difference.tools)
        reason = {
            "args": f"other arguments wanted for {tools}",
            "extra": f"calls too often {tools}",
            "missing": f"does not call {tools}",
            "order": f"another order wanted: {tools}",
        }[what]
        feedback = self._feedback(difference, sample, attempt)
        return Finding(False, score, reason, f"tool_calls.{what}", feedback, metadata)

    def _expected(self, sample: Sample) -> list[ToolCall]:
        field = self.params.field
        if field is None:
            return calls_in(list(self.params.value), expected=True)
        value = sample.target if field == TARGET else sample.inputs.get(field)
        if value is None:
            raise ValueError(f"the sample has no {field}, which should hold the expected tool calls")
        try:
            return calls_in(json.loads(value) if isinstance(value, str) else value, expected=True)
        except ValueError as error:
            raise ValueError(f"the sample's {field} does not hold tool calls: {error}") from None

    def _matches(self, made: ToolCall, expected: ToolCall) -> bool:
        mode = self.params.args_of.get(expected.name, self.params.args)
        return made.name == expected.name and args_match(made, expected, mode)

    def _compare(self, made: Sequence[ToolCall], expected: Sequence[ToolCall]) -> tuple[float, _Difference | None]:
        mode, pairs = self.params.mode, match_calls(made, expected, self._matches)
        num_matched = count_in_order(made, expected, self._matches) if mode == "strict" else len(pairs)
        parts = {"subset": [made], "superset": [expected]}.get(mode, [made, expected])
        score = len(parts) * num_matched / total if (total := sum(map(len, parts))) else 1.0
        if score == 1:
            return score, None
        made_names, names = Counter(call.name for call in made), Counter(call.name for call in expected)
        if mode != "subset" and (missing := names - made_names):
            return score, _Difference("missing", tuple(missing))
        if mode != "superset" and (extra := made_names - names):
            return score, _Difference("extra", tuple(extra))
        alone = [call for index, call in enumerate(made) if index not in pairs.values()]
        if mode == "superset":
            alone = [call for index, call in enumerate(expected) if index not in pairs]
        if alone:
            return score, _Difference("args", tuple(dict.fromkeys(call.name for call in alone)))
        return score, _Difference("order", tuple(call.name for call in expected))

    def _feedback(self, difference: _Difference, sample: Sample, attempt: Attempt) -> str:
        """Names tools where the task file does; of those only the sample expects, none."""
        known = self.params.field is None
        tools = join_words([quoted([tool]) for tool in difference.tools], "and")
        called = tools if known else redact(tools, sample, attempt)
        return {
            "args": f"Call {called} with the right arguments.",
            "extra": f"Do not call {called} that often.",
            "missing": f"Call {tools}." if known else "A tool call is missing.",
            "order": "Call the tools in the right order.",
        }[difference.what]

    def default_remedy(self, category: str) -> str | None:
        if category == self.negated_category:
            return "Do not make these tool calls."
        if category == "tool_calls.args":
            return "Give each tool exactly the arguments that the task names."
        if self.params.field is not None:
            return {
                "tool_calls.extra": "Call only the tools that the task needs.",
                "tool_calls.missing": "Call every tool that the task needs.",
                "tool_calls.order": "Call the tools in the order that the task needs.",
            }.get(category)
        names = [call.name for call in calls_in(list(self.params.value), expected=True)]
        tools = join_words([quoted([name]) for name in dict.fromkeys(names)], "and")
        return {
            "tool_calls.extra": f"Call no tool but {tools}." if tools else "Call no tool.",
            "tool_calls.missing": f"Call {tools}.",
            "tool_calls.order": f"Call the tools in this order: {quoted(names)}.",
        }.get(category)


def calls_in(trajectory: Any, *, expected: bool = False) -> list[ToolCall]:
    """The tool calls of a trajectory, in order. Raises ValueError where it has none of the known forms.

    >>> calls_in([{"role": "user", "content": "?"}, {"name": "search", "args": {"query": "mugs"}}])
    [ToolCall(name='search', args={'query': 'mugs'})]
    """
    if isinstance(trajectory, Mapping):
        trajectory = trajectory.get("messages", [trajectory])
    if not isinstance(trajectory, list | tuple):
        raise ValueError(f"a trajectory is a list of messages or calls, not {type(trajectory).__name__}")
    return [call for number, step in enumerate(trajectory, 1) for call in _calls_of(step, number, expected=expected)]


def _calls_of(step: Any, number: int, *, expected: bool) -> Iterator[ToolCall]:
    if expected and isinstance(step, str) and step:
        yield ToolCall(step)
        return
    if not isinstance(step, Mapping):
        hint = "messages must be plain data, as message.model_dump() gives them"
        raise ValueError(f"step {number} of the trajectory is neither a message nor a call; {hint}")
    step = step["data"] if isinstance(step.get("data"), Mapping) else step
    for call in [step] if _is_call(step) else _calls_of_message(step):
        yield _call(call, number, expected=expected)


def _is_call(step: Mapping[str, Any]) -> bool:
    """A call may carry what it returned under ``content``; a message with a name has no arguments."""
    if step.get("type") in _NO_CALLS:
        return False
    has_args = "name" in step and any(key in step for key in _ARGUMENTS)
    return not step.keys() & _MESSAGE_KEYS or (has_args and not step.keys() & (_MESSAGE_KEYS - {"content"}))


def _calls_of_message(step: Mapping[str, Any]) -> list[Any]:
    """Where it has them twice, as LangChain writes those of Anthropic's models, the list of its own counts."""
    calls = [*(step.get("tool_calls") or ()), *(step.get("invalid_tool_calls") or ())]
    content = step.get("content")
    if not calls and isinstance(content, list | tuple):
        parts = [part for part in content if isinstance(part, Mapping)]
        calls = [part for part in parts if part.get("type") in ("tool_use", "function_call")]
    return calls or ([step["function_call"]] if step.get("function_call") else [])


def _call(call: Any, number: int, *, expected: bool) -> ToolCall:
    inner = call.get("function", call) if isinstance(call, Mapping) else None
    name = inner.get("name") if isinstance(inner, Mapping) else None
    if not isinstance(inner, Mapping) or not isinstance(name, str) or not name:
        raise ValueError(f"step {number} of the trajectory has a call without a name")
    args = next((inner[key] for key in _ARGUMENTS if key in inner), None)
    if isinstance(args, str):
        args = _read_args(args)
    return ToolCall(name, args if args is not None or expected else {})


def _read_args(text: str) -> Any:
    """Arguments as a model wrote them; what is not JSON stays text, which matches nothing but itself."""
    try:
        return json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return text
