"""A proposal's card as text: the change, why, real outputs, the paired counts, the costs, the history, the commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from loopeng.improve.watch.undoing import watch_summary
from loopeng.report.evidence import LEDGER_TITLE, ledger_document, ledger_text
from loopeng.report.layout import columns, count, excerpt, moment
from loopeng.report.terminal import NextCommands, commands_document, commands_text, evidence_lines, state_text
from loopeng.schema import GateReport, RuleOperation

if TYPE_CHECKING:
    from loopeng.cards import Card, DiffPart, OutputPair

__all__ = ["card_document", "card_text", "marked_diff"]

_MARKS = {"same": "{}", "removed": "[-{}-]", "added": "{{+{}+}}"}


def card_text(card: Card, commands: NextCommands | None) -> str:
    """The whole card. ``commands`` is None where nothing is left to do, or where the question follows at once."""
    sections = [
        _head(card),
        _section("change  [-removed-] {+added+}", marked_diff(card.word_diff)),
        _section("why", card.revision.rationale),
        _section("suggestions that were not chosen", _not_chosen(card)),
        _section("failures it is for (real first attempts of the reflect split)", _patterns(card)),
        _section("reproduction (failing samples again, new seed)", _reproduction(card)),
        _section("evidence", _evidence(card)),
        _section(LEDGER_TITLE, ledger_text(card.ledger, card.id)),
        _section("gate samples whose verdict changed", _changed(card)),
        _section("history", _history(card)),
    ]
    if commands is not None:
        sections.append(commands_text(commands))
    return "\n\n".join(section for section in sections if section)


def marked_diff(parts: Sequence[DiffPart]) -> str:
    """The whole prompt with its changes marked line by line, as ``git diff --word-diff`` does."""
    return "".join(
        "\n".join(_MARKS[part.kind].format(line) if line else "" for line in part.text.split("\n")) for part in parts
    )


def card_document(card: Card, commands: NextCommands | None) -> dict[str, Any]:
    """The card as plain values."""
    return {
        "id": card.id,
        "proposal": card.proposal,
        "revision": card.revision,
        "base": card.base,
        "text_hash": card.text_hash,
        "diff": card.diff,
        "patterns": [vars(example) for example in card.patterns],
        "reproduction": _reproduction_document(card),
        "gate": card.gate,
        "holdout": card.holdout,
        "watches": card.watches,
        "pairs": [vars(pair) for pair in card.pairs],
        "cost_change": card.cost_change,
        "ledger": ledger_document(card.ledger),
        "not_chosen": card.not_chosen,
        "history": [vars(entry) for entry in card.history],
        "commands": commands_document(commands),
    }


def _head(card: Card) -> str:
    proposal = card.proposal
    state = state_text(proposal.state, proposal.state_reason, proposal.snoozed_until)
    lines = [
        f"{'rollback' if proposal.kind == 'rollback' else 'proposal'} {card.id}  "
        f"revision {card.revision.revision} by {card.revision.author}: {state}",
        f"prompt {proposal.prompt_name}, made for version {card.base.number}; text {card.text_hash[:8]}",
    ]
    if proposal.expires_at is not None and proposal.decidable:
        lines.append(f"expires {moment(proposal.expires_at)}")
    lines += [f"refused by guard {finding.guard}: {finding.reason}" for finding in card.revision.findings]
    return "\n".join(lines)


def _section(title: str, body: str) -> str:
    return f"{title}\n" + "\n".join(f"    {line}".rstrip() for line in body.splitlines()) if body.strip() else ""


def _not_chosen(card: Card) -> str:
    lines = []
    for each in card.not_chosen:
        passed = (
            "" if each.num_screened is None else f" ({each.num_passed} of {each.num_screened} reflect samples passed)"
        )
        lines.append(f"{each.number}  {each.outcome}{passed}: {each.reason}")
        lines += [f"    {_operation(operation)}" for operation in each.operations]
        if not each.operations and each.reply:
            lines.append(f"    {excerpt(each.reply, 160)}")
    return "\n".join(lines)


def _operation(operation: RuleOperation) -> str:
    return " ".join(filter(None, (operation.op, operation.rule_id, operation.text)))


def _patterns(card: Card) -> str:
    lines = []
    for example in card.patterns:
        pattern = example.pattern
        lines.append(f"{pattern.id}  {pattern.evaluator}: {pattern.category}  {count(pattern.num_samples, 'sample')}")
        if example.sample_id is not None:
            lines.append(f"    {example.sample_id}: {example.reason}")
            lines.append(f"    {excerpt(example.output, 200)}")
    return "\n".join(lines)


def _reproduction(card: Card) -> str:
    found = card.reproduction
    if found is None or found.skipped is not None:
        return f"skipped: {found.skipped}" if found is not None else ""
    lines = [f"{check.summary}: {'confirmed' if check.confirmed else 'not confirmed'}" for check in found.patterns]
    if found.num_errors:
        lines.append(f"{count(found.num_errors, 'attempt')} in error, not counted")
    return "\n".join(lines)


def _reproduction_document(card: Card) -> dict[str, Any] | None:
    found = card.reproduction
    return None if found is None else vars(found) | {"patterns": [vars(check) for check in found.patterns]}


def _evidence(card: Card) -> str:
    if card.proposal.kind == "rollback":
        numbers = [f"{watch.pattern_id}  {watch_summary(watch)}" for watch in card.watches]
        told = "a rollback has no gate: its evidence is later runs (an e-value of 20 is as sure as p = 0.05)"
        return "\n".join([told, *numbers])
    lines = evidence_lines(card.gate, card.holdout)
    if card.gate is not None and card.gate.pairs.num_pairs:
        lines += ["", _paired_table(card.gate)]
    if card.gate is not None and not card.gate.deterministic:
        lines += ["", "answers to the same request may differ here: some of the difference is chance"]
    if card.cost_change:
        lines += ["", f"cost of the gate samples: {card.cost_change}"]
    return "\n".join(lines)


def _paired_table(gate: GateReport) -> str:
    rows = [("first attempts", "pairs", "before", "after", "fixed", "broken")]
    for name, pairs in (("sample passes", gate.pairs), *gate.by_evaluator.items()):
        numbers = (pairs.num_pairs, pairs.baseline_passed, pairs.candidate_passed, pairs.fixed, pairs.broken)
        rows.append((name, *map(str, numbers)))  # type: ignore[arg-type]
    return columns(rows, right=(1, 2, 3, 4, 5))


def _changed(card: Card) -> str:
    lines = [_pair(pair) for pair in card.pairs]
    for effect, samples in (
        ("broken", card.gate.broken_samples if card.gate else ()),
        ("fixed", card.gate.fixed_samples if card.gate else ()),
    ):
        num_more = len(samples) - sum(pair.effect == effect for pair in card.pairs)
        if lines and num_more:
            lines.append(f"and {num_more} more {effect}: {', '.join(samples[-num_more:])}")
    return "\n".join(lines)


def _pair(pair: OutputPair) -> str:
    outputs = (("before", pair.before), ("after ", pair.after))
    return "\n".join(
        [f"{pair.effect}  {pair.sample_id}", *(f"    {when} {excerpt(text, 160)}" for when, text in outputs)]
    )


def _history(card: Card) -> str:
    lines = []
    for entry in card.history:
        lines.append(f"{moment(entry.at)}  {entry.who}: {entry.what}")
        lines += [f"    {line}" for line in entry.reason.splitlines()]
    return "\n".join(lines)
