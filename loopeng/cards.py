"""The card: what a person sees of a proposal before deciding. Plain values and text; how it looks is the caller's."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from loopeng.errors import NotFoundError
from loopeng.improve.gate.planning import LedgerEntry, ledger
from loopeng.improve.reproduction import Reproduction, reproduction
from loopeng.improve.watch.undoing import watches_behind
from loopeng.prompts import rendered_template
from loopeng.schema import (
    Attempt,
    Decision,
    FailurePattern,
    GateReport,
    PromptVersion,
    Proposal,
    Revision,
    Suggestion,
    Watch,
)
from loopeng.store import LoopStore

__all__ = ["Card", "DiffPart", "HistoryEntry", "OutputPair", "PatternExample", "card", "unified_diff", "word_diff"]

_REPLY_WIDTH = 300
_NUM_PAIRS = 5  # shown of the fixed and of the broken samples each
_WORDS = re.compile(r"\s+|\w+|[^\w\s]")


@dataclass(frozen=True)
class DiffPart:
    """A stretch of text that both versions have, or only the old or the new one."""

    kind: Literal["same", "removed", "added"]
    text: str


@dataclass(frozen=True)
class PatternExample:
    """A failure pattern with one real first attempt that shows it.

    Counted under the proposal's base version, or over all of them where that one has not been run yet.
    """

    pattern: FailurePattern
    sample_id: str | None = None
    output: str = ""
    reason: str = ""


@dataclass(frozen=True)
class OutputPair:
    """A gate sample whose verdict the change turned round, with the first attempts of both arms."""

    sample_id: str
    effect: Literal["fixed", "broken"]
    before: str
    after: str


@dataclass(frozen=True)
class HistoryEntry:
    """One thing that happened to the proposal."""

    at: datetime
    who: str
    what: str
    reason: str = ""


@dataclass(frozen=True)
class Card:
    """A proposal with its evidence. ``text_hash`` is what a decision must name."""

    proposal: Proposal
    revision: Revision
    base: PromptVersion
    patterns: tuple[PatternExample, ...]
    gate: GateReport | None
    holdout: GateReport | None
    pairs: tuple[OutputPair, ...]
    history: tuple[HistoryEntry, ...]
    ledger: tuple[LedgerEntry, ...] = ()  # every look of the prompt
    reproduction: Reproduction | None = None  # whether the failures came back before anything was proposed
    not_chosen: tuple[Suggestion, ...] = ()
    watches: tuple[Watch, ...] = ()  # of the commit that a rollback proposal takes back: its evidence

    @property
    def id(self) -> str:
        """Of the proposal."""
        return self.proposal.id

    @property
    def text_hash(self) -> str:
        """Of the template plus the proposed rules."""
        return self.revision.text_hash

    @property
    def before(self) -> str:
        """The prompt as it is, inputs still as placeholders."""
        return rendered_template(self.base.template, self.base.rules)

    @property
    def after(self) -> str:
        """The prompt as it would be."""
        return rendered_template(self.base.template, self.revision.rules)

    @property
    def diff(self) -> str:
        """Line by line, as ``diff -u`` writes it."""
        return unified_diff(self.before, self.after)

    @property
    def word_diff(self) -> tuple[DiffPart, ...]:
        """Word by word, for readers."""
        return word_diff(self.before, self.after)

    @property
    def cost_change(self) -> str | None:
        """Tokens of a gate run under the current and the proposed rules; None where there was none."""
        arms = {arm.arm: arm for arm in self.gate.arms} if self.gate else {}
        if arms.keys() != {"baseline", "candidate"}:
            return None
        before, after = arms["baseline"], arms["candidate"]
        return (
            f"prompt tokens {_change(before.prompt_tokens, after.prompt_tokens)}, "
            f"generated tokens {_change(before.generated_tokens, after.generated_tokens)}"
        )


def card(store: LoopStore, proposal_id: str) -> Card:
    """Everything there is to see of a proposal. Raises NotFoundError, also before its first revision is drafted."""
    proposal = store.proposal(proposal_id)
    if proposal.revision == 0:
        raise NotFoundError(_without_text(store, proposal))
    revision = store.revision(proposal.id)
    gate = store.gate_report(proposal.id, revision.revision, "gate")
    return Card(
        proposal=proposal,
        revision=revision,
        base=store.prompt_version(proposal.base_version_id),
        patterns=tuple(_example(store, proposal, store.pattern(pattern_id)) for pattern_id in proposal.pattern_ids),
        gate=gate,
        holdout=store.gate_report(proposal.id, revision.revision, "holdout"),
        pairs=_pairs(store, gate),
        history=_history(store, proposal),
        ledger=ledger(store, proposal.prompt_name),
        reproduction=reproduction(store, proposal),
        not_chosen=tuple(each for each in store.suggestions(proposal.id) if each.outcome != "chosen"),
        watches=watches_behind(store, proposal),
    )


def unified_diff(before: str, after: str) -> str:
    """Line by line, with three lines around each change.

    >>> print(unified_diff("Describe it.", "Describe it.\\nBe brief."))
    --- current
    +++ proposed
    @@ -1 +1,2 @@
     Describe it.
    +Be brief.
    """
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "current", "proposed", lineterm="")
    return "\n".join(lines)


def word_diff(before: str, after: str) -> tuple[DiffPart, ...]:
    """What stays, goes and comes, word by word.

    >>> [(part.kind, part.text) for part in word_diff("at most 25 words", "at most 20 words")]
    [('same', 'at most '), ('removed', '25'), ('added', '20'), ('same', ' words')]
    """
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    parts: list[DiffPart] = []
    for tag, old_start, old_end, new_start, new_end in difflib.SequenceMatcher(None, old, new, False).get_opcodes():
        removed, added = "".join(old[old_start:old_end]), "".join(new[new_start:new_end])
        if tag == "equal":
            parts.append(DiffPart("same", removed))
            continue
        if removed:
            parts.append(DiffPart("removed", removed))
        if added:
            parts.append(DiffPart("added", added))
    return tuple(parts)


def _without_text(store: LoopStore, proposal: Proposal) -> str:
    told = f"{proposal.id} is {proposal.state}: {proposal.state_reason or 'no text is drafted yet'}"
    lines = []
    for each in store.suggestions(proposal.id):
        lines.append(f"suggestion {each.number}, {each.outcome}: {each.reason}")
        if each.reply:
            lines.append(f"    the reply: {_shortened(each.reply)}")
    return "\n".join([told, *lines])


def _shortened(reply: str) -> str:
    line = " ".join(reply.split())
    return line if len(line) <= _REPLY_WIDTH else f"{line[: _REPLY_WIDTH - 1]}…"


def _example(store: LoopStore, proposal: Proposal, pattern: FailurePattern) -> PatternExample:
    shown = store.occurrences(pattern.id, prompt_version_id=proposal.base_version_id)
    shown = shown or store.occurrences(pattern.id)  # rebased to a head that nobody has run yet
    num_samples = len({sample_id for _, sample_id in shown})
    pattern = pattern.model_copy(update={"num_occurrences": len(shown), "num_samples": num_samples})
    for run_id, sample_id in shown:
        for attempt in store.attempts(run_id, sample_id):
            if attempt.attempt_index == 0 and (reason := _failure(attempt, pattern)) is not None:
                return PatternExample(pattern, sample_id, attempt.text, reason)
    return PatternExample(pattern)


def _failure(attempt: Attempt, pattern: FailurePattern) -> str | None:
    for result in attempt.failed_results:
        if (result.evaluator, result.category) == (pattern.evaluator, pattern.category):
            return result.reason
    return None


def _pairs(store: LoopStore, gate: GateReport | None) -> tuple[OutputPair, ...]:
    runs = {arm.arm: arm.run_id for arm in gate.arms} if gate else {}
    if gate is None or runs.keys() != {"baseline", "candidate"}:
        return ()
    chosen: list[tuple[str, Literal["fixed", "broken"]]] = [
        *((sample_id, "broken") for sample_id in gate.broken_samples[:_NUM_PAIRS]),
        *((sample_id, "fixed") for sample_id in gate.fixed_samples[:_NUM_PAIRS]),
    ]
    return tuple(
        OutputPair(
            sample_id, effect, _output(store, runs["baseline"], sample_id), _output(store, runs["candidate"], sample_id)
        )
        for sample_id, effect in chosen
    )


def _output(store: LoopStore, run_id: str, sample_id: str) -> str:
    return next((attempt.text for attempt in store.attempts(run_id, sample_id)), "")


def _history(store: LoopStore, proposal: Proposal) -> tuple[HistoryEntry, ...]:
    entries = [HistoryEntry(proposal.created_at, "loopeng", "proposal started")]
    decisions = store.decisions(proposal_id=proposal.id)
    for revision in store.revisions(proposal.id):
        what = f"revision {revision.revision}"
        entries.append(HistoryEntry(revision.created_at, revision.author, what, revision.rationale))
        for split, report in store.gate_reports(proposal.id, revision.revision).items():
            counted = f"{split} of {what}: {report.verdict}, {report.summary}"
            entries.append(HistoryEntry(report.created_at, "loopeng", counted, report.note))
        about = (each for each in decisions if (each.revision or each.evidence.get("revision")) == revision.revision)
        entries += [_decided(decision) for decision in about]
    return tuple(entries)


def _decided(decision: Decision) -> HistoryEntry:
    evidence = decision.evidence
    if decision.action == "snooze":
        until = datetime.fromisoformat(evidence["until"])
        asleep = until > decision.created_at
        what = f"snooze of revision {evidence['revision']} until {until:%Y-%m-%d %H:%M} UTC" if asleep else "woken"
    elif decision.action == "rebase":
        what = f"rebase of revision {evidence['revision']} from version {evidence['from_version']} "
        what += f"to version {evidence['to_version']}"
    else:
        flag = ", accepted without evidence" if decision.accepted_untested else ""
        seen = "automatic" if decision.automatic else f"seen {decision.seen_hash[:8]}"
        what = f"{decision.action} of revision {decision.revision}, {seen}{flag}"
    return HistoryEntry(decision.created_at, decision.by, what, decision.reason)


def _change(before: int, after: int) -> str:
    relative = f" ({(after - before) / before:+.0%})".replace("%", " %") if before else ""
    return f"{before:,} -> {after:,}{relative}"
