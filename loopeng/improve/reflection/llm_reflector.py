"""The ``llm`` reflector: a model reads a few failures and proposes operations on the rules, as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loopeng.errors import RequestRefusedError, UsageError
from loopeng.improve.reflection.replies import UnreadableReplyError, read_reply
from loopeng.improve.rules import normalise_rule
from loopeng.ports import NoChange, ProposedChange, ReflectionContext, TextEngine, TextReply, TextRequest
from loopeng.prompts import RULES, load_prompt, rendered_template
from loopeng.schema import Attempt, Message, RuleOperation, Sample

__all__ = ["LlmReflector", "reflection_prompt"]

_NUM_REFUSED = 5  # of each kind; the newest
_MAX_CHARS = 300  # of an input, an answer, a reason
_MAX_TEMPLATE_CHARS = 2400
_WARM, _STEP, _WARMEST = 0.7, 0.1, 1.0  # temperatures of further candidates
_LEAST_AGAIN = 0.4  # the question asked again must not get the same reply
_WORDS_PER_TOKEN = 2 / 3


class LlmReflector:
    """Asks the context's engine. The first change is the model's likeliest; further ones are sampled, to differ.

    A reply that cannot be read is asked for once more with what is wrong with it; a second one is recorded.
    """

    def propose(self, context: ReflectionContext) -> Sequence[ProposedChange | NoChange]:
        """One answer for each of ``improve.candidates``. Raises what the engine raises, but for a request it refuses.

        Raises UsageError where the context has no engine.
        """
        if context.engine is None:
            raise UsageError("improve.reflector 'llm' needs an engine")
        prompt = reflection_prompt(context)
        return [_ask(context, context.engine, prompt, number) for number in range(context.improve.candidates)]


def reflection_prompt(context: ReflectionContext) -> str:
    """What the model is asked: template, rules, mistakes, failing examples, refused changes, the form of a reply."""
    rules, limits = context.prompt.rules, context.improve
    evaluators = {pattern.evaluator for pattern in context.patterns}
    return load_prompt("reflect").render(
        template=_cut(rendered_template(context.prompt.template).strip(), _MAX_TEMPLATE_CHARS),
        rules=[{"id": rule.id, "text": rule.text} for rule in rules],
        mistakes=[
            f"{pattern.evaluator} ({pattern.category}): {_clipped(pattern.reason)}" for pattern in context.patterns
        ],
        cures=_cures(context),
        examples=[_example(sample, attempt, evaluators) for sample, attempt in context.examples],
        refused=[_refusal(*each) for each in (*context.rejected[-_NUM_REFUSED:], *context.refused[-_NUM_REFUSED:])],
        full=len(rules) >= limits.max_rules,
        max_rules=limits.max_rules,
        max_words=max(1, int(limits.max_rule_tokens * _WORDS_PER_TOKEN)),
    )


def _ask(context: ReflectionContext, engine: TextEngine, prompt: str, number: int) -> ProposedChange | NoChange:
    request = _request(context.request, prompt, number)
    try:
        reply = engine.generate(request)
        try:
            return _change(context, reply)
        except UnreadableReplyError as error:
            reply = engine.generate(_asked_again(request, prompt, str(error)))
    except RequestRefusedError as error:
        return NoChange(reason=str(error))
    try:
        return _change(context, reply)
    except UnreadableReplyError as error:
        return NoChange(reason=f"the reply could not be read, also when asked again: {error}", reply=reply.text)


def _request(settings: TextRequest, prompt: str, number: int) -> TextRequest:
    """Candidates differ in temperature and seed; an even seed for the question, the odd one after it for the repeat."""
    temperature = settings.temperature
    if number:
        temperature = max(temperature, min(_WARM + _STEP * (number - 1), _WARMEST))
    changes = {"messages": (_user(prompt),), "temperature": temperature, "seed": (settings.seed + 2 * number) % 2**63}
    return settings.model_copy(update=changes)


def _asked_again(request: TextRequest, prompt: str, problem: str) -> TextRequest:
    """A fresh prompt: with its own reply before it a small model repeats it."""
    text = load_prompt("reflect_again").render(prompt=prompt, problem=problem)
    temperature = max(request.temperature, _LEAST_AGAIN)
    changes = {"messages": (_user(text),), "temperature": temperature, "seed": (request.seed + 1) % 2**63}
    return request.model_copy(update=changes)


def _user(text: str) -> Message:
    return Message(role="user", content=text)


def _change(context: ReflectionContext, reply: TextReply) -> ProposedChange:
    pattern_ids = tuple(pattern.id for pattern in context.patterns)
    try:
        operations, rationale = read_reply(reply.text, context.prompt.rules, context.improve, pattern_ids=pattern_ids)
    except UnreadableReplyError as error:
        if reply.finish_reason == "length":
            raise UnreadableReplyError(f"it was cut off at {context.request.max_tokens} tokens ({error})") from None
        raise
    return ProposedChange(operations=operations, rationale=rationale, pattern_ids=pattern_ids, reply=reply.text)


def _cures(context: ReflectionContext) -> list[str]:
    """The remedies, but for those that did not help, being rules already, and those that were not wanted."""
    refused = [each.text or "" for operations, _ in (*context.rejected, *context.refused) for each in operations]
    spent = {normalise_rule(text) for text in (*refused, *(rule.text for rule in context.prompt.rules))}
    remedies = dict.fromkeys((pattern.remedy or "").strip() for pattern in context.patterns)
    return [remedy for remedy in remedies if remedy and normalise_rule(remedy) not in spent]


def _example(sample: Sample, attempt: Attempt, evaluators: set[str]) -> dict[str, str]:
    results = [result for result in attempt.failed_results if result.evaluator in evaluators]
    feedback = dict.fromkeys(result.feedback.strip() or f"{result.evaluator} failed" for result in results)
    return {
        "input": "; ".join(f"{name}: {_clipped(value)}" for name, value in sample.inputs.items() if name != RULES),
        "answer": _clipped(attempt.text) or "(nothing)",
        "feedback": " ".join(feedback),
    }


def _refusal(operations: Sequence[RuleOperation], reason: str) -> str:
    changes = [" ".join(filter(None, (each.op, each.rule_id, each.text and f'"{each.text}"'))) for each in operations]
    return f"{'; '.join(changes)} | refused because: {_clipped(reason) or 'no reason given'}"


def _clipped(value: Any) -> str:
    """One line, its end included: that may be what is wrong."""
    return _cut(" ".join(str(value).split()), _MAX_CHARS)


def _cut(text: str, max_chars: int) -> str:
    head, tail = max_chars * 2 // 3, max_chars // 3
    return text if len(text) <= max_chars else f"{text[:head].rstrip()} ... {text[-tail:].lstrip()}"
