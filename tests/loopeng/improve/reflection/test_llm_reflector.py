from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopeng.approvals import approve, reject
from loopeng.attempt.harness import Harness
from loopeng.engines.scripted import ScriptedEngine
from loopeng.errors import RequestRefusedError, UsageError
from loopeng.improve import propose
from loopeng.improve.reflection.llm_reflector import LlmReflector, reflection_prompt
from loopeng.improve.reflection.redaction import hide_targets, redacted_example
from loopeng.improve.reflection.reflectors import reflection_context
from loopeng.ports import NoChange, ProposedChange, ReflectionContext, TextRequest
from loopeng.runner import run_suite
from loopeng.schema import (
    Attempt,
    FailurePattern,
    PromptVersion,
    Proposal,
    Rule,
    RuleOperation,
    Sample,
    Task,
    utc_now,
)
from loopeng.schema.task import ImproveSpec
from loopeng.store import LoopStore

GOOD = '{"operations": [{"op": "add", "text": "Write exactly one sentence."}], "rationale": "Two were written."}'


class Asked:
    """An engine that answers one after the other, and what it was asked."""

    def __init__(self, *replies: str) -> None:
        self.requests: list[TextRequest] = []
        self._replies = iter(replies)
        self.engine = ScriptedEngine(self._answer)

    def _answer(self, request: TextRequest) -> str:
        self.requests.append(request)
        return next(self._replies)

    @property
    def texts(self) -> list[str]:
        return [message.content for request in self.requests for message in request.messages]


def head(rules: Sequence[str] = (), template: str = "Describe {{ product }}{{ rules }}") -> PromptVersion:
    return PromptVersion(
        id="ver-1", prompt_name="p", number=1, template=template, text_hash="0" * 64, source="task file",
        rules=tuple(Rule(id=f"rule-{number}", text=text) for number, text in enumerate(rules, start=1)),
        created_by="ana", created_at=utc_now(),
    )  # fmt: skip


PATTERN = FailurePattern(
    id="pat-1", prompt_name="p", fingerprint="v1:1", evaluator="one-sentence", category="sentences.too_many",
    reason="<n> sentences", remedy="Write one sentence.", created_at=utc_now(),
)  # fmt: skip


def context(asked: Asked, rules: Sequence[str] = (), **improve: int) -> ReflectionContext:
    return ReflectionContext(
        prompt=head(rules), patterns=(PATTERN,), engine=asked.engine, improve=ImproveSpec(reflector="llm", **improve)
    )


def test_a_good_reply_is_a_change() -> None:
    asked = Asked(GOOD)
    (change,) = LlmReflector().propose(context(asked))
    assert isinstance(change, ProposedChange)
    assert [(each.op, each.text, each.pattern_ids) for each in change.operations] == [
        ("add", "Write exactly one sentence.", ("pat-1",))
    ]
    assert (change.rationale, change.reply, change.pattern_ids) == ("Two were written.", GOOD, ("pat-1",))
    (request,) = asked.requests
    assert request.temperature == 0


def test_a_malformed_reply_is_asked_for_once_more_with_what_is_wrong() -> None:
    """With its own bad reply in the conversation a small model says it again, so the prompt is a fresh one."""
    asked = Asked("I would add a rule.", GOOD)
    (change,) = LlmReflector().propose(context(asked))
    assert isinstance(change, ProposedChange)
    first, again = asked.requests
    assert "An earlier reply could not be used: the reply must be one JSON object" in again.messages[-1].content
    assert first.messages[0].content in again.messages[0].content and "I would add" not in again.messages[0].content
    assert again.temperature > 0 and again.seed != first.seed  # a retry must change something


def test_a_second_malformed_reply_is_recorded_and_never_guessed_at() -> None:
    unknown = '{"operations": [{"op": "remove", "rule_id": "rule-7"}]}'
    asked = Asked(f"Here you are: {GOOD}", unknown)
    (answer,) = LlmReflector().propose(context(asked, ["Be kind."]))
    assert isinstance(answer, NoChange)
    assert answer.reply == unknown and "there is no rule 'rule-7'; there is: rule-1" in answer.reason
    assert len(asked.requests) == 2


def test_a_full_list_is_told_so_and_what_adds_is_refused() -> None:
    asked = Asked(GOOD, '{"operations": [{"op": "update", "rule_id": "rule-2", "text": "Write one sentence."}]}')
    (change,) = LlmReflector().propose(context(asked, ["Be kind.", "Be brief."], max_rules=2))
    first, again = asked.requests
    assert "list of rules is full" in first.messages[0].content and '"op": "add"' not in first.messages[0].content
    assert "at most 2 are allowed" in again.messages[0].content
    assert isinstance(change, ProposedChange)
    assert [(each.op, each.rule_id) for each in change.operations] == [("update", "rule-2")]


def test_further_candidates_are_sampled_with_seeds_of_their_own() -> None:
    asked = Asked(GOOD, "no", GOOD, GOOD)
    answers = LlmReflector().propose(context(asked, candidates=3))
    assert len(answers) == 3
    first, second, again, third = asked.requests
    assert first.temperature == 0 < again.temperature and second.temperature < third.temperature
    assert len({request.seed for request in asked.requests}) == 4


def test_a_reply_that_was_cut_off_says_so() -> None:
    class Short:
        def __init__(self) -> None:
            self.asked = Asked('{"operations": [', '{"operations": [')

        def generate(self, request: TextRequest) -> object:
            return self.asked.engine.generate(request).model_copy(update={"finish_reason": "length"})

        describe = ScriptedEngine.describe

    (answer,) = LlmReflector().propose(ReflectionContext(prompt=head(), patterns=(PATTERN,), engine=Short()))  # type: ignore[arg-type]
    assert isinstance(answer, NoChange) and "cut off at 256 tokens" in answer.reason


def test_a_request_the_engine_refuses_ends_that_candidate() -> None:
    def too_long(request: TextRequest) -> str:
        raise RequestRefusedError("the prompt is longer than the context")

    seen = ReflectionContext(prompt=head(), patterns=(PATTERN,), engine=ScriptedEngine(too_long))
    assert LlmReflector().propose(seen) == [NoChange(reason="the prompt is longer than the context")]
    with pytest.raises(UsageError, match="needs an engine"):
        LlmReflector().propose(ReflectionContext(prompt=head(), patterns=(PATTERN,)))


def test_the_prompt_shows_what_was_refused_and_why() -> None:
    def added(text: str) -> tuple[RuleOperation, ...]:
        return (RuleOperation(op="add", text=text),)

    seen = ReflectionContext(
        prompt=head(["Be {{ kind }}."]),
        patterns=(PATTERN,),
        rejected=tuple((added(f"Rule {number}."), f"reason {number}") for number in range(7)),
        refused=(((RuleOperation(op="update", rule_id="rule-1", text="Be mean."),), "size: too long"),),
    )
    text = reflection_prompt(seen)
    assert 'add "Rule 6." | refused because: reason 6' in text and "Rule 1." not in text  # the newest ones
    assert 'update rule-1 "Be mean." | refused because: size: too long' in text
    assert "rule-1: Be {{ kind }}." in text and "Describe {{ product }}" in text and "{{ rules }}" not in text
    assert "refused" not in reflection_prompt(ReflectionContext(prompt=head(), patterns=(PATTERN,)))


def test_the_remedy_is_suggested_unless_it_was_refused_or_has_not_helped() -> None:
    rejected = (((RuleOperation(op="add", text="write one sentence"),), "too strict"),)
    fresh = ReflectionContext(prompt=head(), patterns=(PATTERN,))
    assert "It should say: Write one sentence.\n" in reflection_prompt(fresh)
    for spent in (
        ReflectionContext(prompt=head(), patterns=(PATTERN,), rejected=rejected),
        ReflectionContext(prompt=head(["Write one sentence."]), patterns=(PATTERN,)),
    ):
        assert "It should say" not in reflection_prompt(spent)


def test_long_answers_are_cut_in_the_middle() -> None:
    """What stands after a JSON value is what is wrong with the answer."""
    sample = Sample(id="s", inputs={"product": "mug"}, split="reflect")
    attempt = Attempt(
        run_id="r", sample_id="s", seed=0, messages=(), text="Sure! " + "x" * 900 + "\nHope it helps.",
        verdict="fail", created_at=utc_now(),
    )  # fmt: skip
    text = reflection_prompt(ReflectionContext(prompt=head(), patterns=(PATTERN,), examples=((sample, attempt),)))
    (line,) = [line for line in text.splitlines() if "Answer:" in line]
    assert "Sure! x" in line and line.endswith("Hope it helps.") and " ... " in line and len(line) < 350


SECRETS = st.lists(st.text(alphabet="qxzjv", min_size=4, max_size=9), min_size=1, max_size=6).map(" ".join)


@settings(max_examples=40, deadline=None)
@given(target=SECRETS, before=st.text(max_size=20), shape=st.sampled_from(["text", "list", "mapping"]))
def test_no_target_is_in_any_text_that_is_asked(target: str, before: str, shape: str) -> None:
    """Whatever quotes it: the answer, feedback, an evaluator's reason, a refused rule, a person's reason."""
    secret = {"text": target, "list": ["other", target], "mapping": {"key": {"inner": target}}}[shape]
    sample = Sample(id="s", inputs={"product": "mug"}, target=secret, split="reflect")
    quoting = f"{before} {target.upper()}, no {target}."
    attempt = Attempt(
        run_id="r", sample_id="s", seed=0, messages=(), text=quoting, verdict="fail", created_at=utc_now(),
        results=({"evaluator": "one-sentence", "passed": False, "score": 0, "reason": quoting, "feedback": quoting},),
    )  # fmt: skip
    asked = Asked("no", "no")
    hidden = hide_targets([quoting, quoting], [sample], "Describe {{ product }}")
    seen = ReflectionContext(
        prompt=head(), patterns=(PATTERN,), engine=asked.engine, examples=(redacted_example(sample, attempt),),
        rejected=(((RuleOperation(op="add", text=hidden[0]),), hidden[1]),),
    )  # fmt: skip
    LlmReflector().propose(seen)
    assert len(asked.texts) == 2
    assert not [text for text in asked.texts if target.casefold() in text.casefold()]
    assert "[hidden]" in asked.texts[0] and "mug" in asked.texts[0]


def test_what_is_refused_quotes_no_answer_of_any_split(store: LoopStore, harness: Harness, pending: Proposal) -> None:
    """A rule that copies answers is what people reject; shown as it was, it would teach the answers."""
    answers = {"gate": "a blue mug", "reflect": "seven grey ducks fly over one frozen lake", "holdout": "none"}
    task = harness.task.model_copy(
        update={
            "samples": tuple(each.model_copy(update={"target": answers[each.split]}) for each in harness.task.samples)
        }
    )
    revision = store.revision(pending.id)
    reason = "it says 'A blue mug' and grey ducks fly over one frozen pond"
    reject(store, pending.id, by="ana", seen=revision.text_hash, reason=reason)
    again = store.create_proposal(
        task=task, base=store.head("describe"), pattern_ids=pending.pattern_ids, expires_at=None
    )
    seen = reflection_context(store, Harness.build(store, task), again)
    ((operations, shown),) = seen.rejected
    assert shown == "it says '[hidden]' and [hidden] pond"
    assert operations == revision.operations
    assert seen.engine is not None and all(sample.target is None for sample, _ in seen.examples)


def llm_task(folder: Path, make_task: Callable[..., Task], *replies: str, **improve: int) -> Task:
    """The seed picks the reply: 0 for the first candidate, 1 when it is asked again, 2 for the second ..."""
    script = {"default": list(replies)}
    (folder / "reflections.json").write_text(json.dumps(script), encoding="utf-8")
    engine = {"kind": "scripted", "script": "reflections.json"}
    return make_task(improve=ImproveSpec.model_validate({"reflector": "llm", "engine": engine, **improve}))


def test_from_a_reply_to_the_queue(
    store: LoopStore, harness: Harness, make_task: Callable[..., Task], tmp_path: Path
) -> None:
    both = '{"operations": [{"op": "add", "text": "Write one sentence of at most 20 words."}], "rationale": "Long."}'
    (proposal,) = propose(Harness.build(store, llm_task(tmp_path, make_task, both)))
    assert proposal.state == "pending"
    (kept,) = store.suggestions(proposal.id)
    assert (kept.outcome, kept.reply, kept.number) == ("chosen", both, 1)
    revision = store.revision(proposal.id)
    assert (revision.author, revision.rationale, revision.text_hash) == ("reflector llm", "Long.", kept.text_hash)
    (run,) = store.runs(kind="reflect")
    (ask,) = store.attempts(run.id)
    assert (run.status, run.proposal_id, ask.text) == ("finished", proposal.id, both)
    assert "WRONG ANSWERS\n1. Input: product: teapot-reflect-0" in ask.messages[0].content
    assert ask.usage.total_tokens > 0  # counts against improve.limits
    assert store.gate_report(proposal.id, 1) is not None


def test_replies_that_nobody_can_read_end_the_proposal_with_their_reason(
    store: LoopStore, harness: Harness, make_task: Callable[..., Task], tmp_path: Path
) -> None:
    (proposal,) = propose(Harness.build(store, llm_task(tmp_path, make_task, "Be brief!", '{"operations": []}')))
    assert proposal.state == "archived" and proposal.revision == 0
    assert 'could not be read, also when asked again: "operations" must be a list' in (proposal.state_reason or "")
    (kept,) = store.suggestions(proposal.id)
    assert (kept.outcome, kept.reply, kept.operations) == ("malformed", '{"operations": []}', ())
    assert propose(Harness.build(store, llm_task(tmp_path, make_task, "Be brief!", '{"operations": []}'))) == []


def test_a_rolled_back_change_is_shown_to_the_next_reflection(
    store: LoopStore, harness: Harness, pending: Proposal
) -> None:
    approve(store, pending.id, by="ana", seen=store.revision(pending.id).text_hash, accept_untested=True)
    versions = store.prompt_versions("describe")
    store.rollback("describe", to_version_id=versions[0].id, seen_head_id=versions[1].id, by="ben", reason="too terse")
    again = store.create_proposal(
        task=harness.task, base=store.head("describe"), pattern_ids=pending.pattern_ids, expires_at=None
    )
    assert reflection_context(store, harness, again).rejected == (
        (store.revision(pending.id).operations, "rolled back: too terse"),
    )


def test_a_small_real_model_never_breaks_it(
    store: LoopStore, embedded_folder: Path, make_task: Callable[..., Task], one_thread: None
) -> None:
    """It may say anything; what it says is kept, and the proposal ends in a state that a person can look at."""
    improve = {"reflector": "llm", "engine": {"model": str(embedded_folder), "max_tokens": 32}, "candidates": 2}
    task = make_task(improve=ImproveSpec.model_validate(improve))
    harness = Harness.build(store, task)
    run_suite(harness)
    (proposal,) = propose(harness)
    kept = store.suggestions(proposal.id)
    assert [each.number for each in kept] == [1, 2]
    assert all(each.reply and (each.reason or each.outcome == "chosen") for each in kept)
    assert proposal.state in ("archived", "pending") and (proposal.state == "pending" or proposal.state_reason)
    (run,) = store.runs(kind="reflect")
    assert 2 <= len(store.attempts(run.id)) <= 4 and store.run_usage(run.id)[1].total_tokens > 0
