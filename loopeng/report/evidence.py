"""A gate's test in words: what was planned, what was found, and the ledger of all tests of a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loopeng.improve.gate.planning import LedgerEntry
from loopeng.improve.gate.verdicts import p_text, percent
from loopeng.report.layout import columns, count
from loopeng.schema import GateReport, GateTest

__all__ = [
    "LEDGER_TITLE",
    "finding_line",
    "holdout_text",
    "ledger_document",
    "ledger_text",
    "noise_text",
    "plan_text",
]

LEDGER_TITLE = (
    "alpha ledger (every test of this prompt: p must be at most alpha, and each further look at shared samples "
    "gets less, the k-th gate.alpha / (k (k + 1)))"
)


def plan_text(num_samples: int, look: int, alpha: float, base_rate: float | None, power: float | None) -> str:
    """What a gate is going to do.

    >>> plan_text(16, 1, 0.025, 0.0, 0.8949)
    'gate of 16 samples, look 1 at alpha 0.025; 0 % pass now, expected power 89 %'
    """
    told = f"gate of {count(num_samples, 'sample')}, look {look} at alpha {alpha:.3g}; "
    if base_rate is None or power is None:
        return told + "expected power unknown, as no run under this prompt version has judged these samples"
    return told + f"{percent(base_rate)} pass now, expected power {percent(power)}"


def finding_line(gate: GateReport) -> str:
    """What was found, besides the verdict: effect, power, the A/A check, harm. Empty where nothing was tested."""
    test = gate.test
    if test is None or test.p_value is None:
        return ""
    parts = [] if "alpha" in gate.note else [f"{p_text(test.p_value)} at alpha {test.alpha:.3g} (look {test.look})"]
    parts += [_effect(test), _power(test), _noise(gate, test), "" if "harm" in gate.note else _harm(test)]
    return " · ".join(part for part in parts if part)


def holdout_text(holdout: GateReport) -> str:
    """Before and after on the hold-out samples, and how sure the difference is: it is shown, not tested.

    >>> from loopeng.schema import PairedCount, utc_now
    >>> pairs = PairedCount(num_pairs=8, both_passed=0, fixed=5, broken=1, both_failed=2)
    >>> named = {"proposal_id": "prop-1", "revision": 1, "split": "holdout", "verdict": "untested"}
    >>> print(holdout_text(GateReport(**named, pairs=pairs, created_at=utc_now())))
    holdout 1/8 -> 5/8 first attempts pass (5 fixed, 1 broken): +50 points, 95 % interval -7 to +80
    """
    pairs = holdout.pairs
    if not pairs.num_pairs:
        return f"holdout {holdout.summary}"
    from loopeng.improve.gate.statistics import paired_effect_interval

    effect = (pairs.candidate_passed - pairs.baseline_passed) / pairs.num_pairs
    low, high = (_points(limit) for limit in paired_effect_interval(pairs))
    return f"holdout {holdout.summary}: {_points(effect)} points, 95 % interval {low} to {high}"


def _effect(test: GateTest) -> str:
    if test.effect is None or test.effect_low is None or test.effect_high is None:
        return ""
    low, high = _points(test.effect_low), _points(test.effect_high)
    return f"effect {_points(test.effect)} points (95 % interval {low} to {high})"


def _points(share: float) -> str:
    return f"{100 * share:+.0f}"


def _power(test: GateTest) -> str:
    return "expected power unknown" if test.power is None else f"expected power {percent(test.power)}"


def _noise(gate: GateReport, test: GateTest) -> str:
    if test.num_flips is not None and test.num_flip_pairs is not None:
        return f"A/A check: {test.num_flips} of {count(test.num_flip_pairs, 'verdict')} flip"
    return "A/A check skipped: decoding is deterministic" if gate.deterministic else ""


def _harm(test: GateTest) -> str:
    """Of the evaluators that the change is not about, the one that may have got worse."""
    if not test.harm:
        return "no other evaluator to harm"
    worst = min(test.harm, key=lambda name: test.harm[name])
    return "no harm seen" if test.harm[worst] == 1 else f"harm: least sure of {worst}, {p_text(test.harm[worst])}"


def noise_text(num_flips: int, num_pairs: int, num_errors: int, max_flip_rate: float) -> str:
    """The result of an A/A check.

    >>> print(noise_text(0, 40, 0, 0.1))
    A/A check: 0 of 40 verdicts flip (0 %, 95 % interval 0 % to 9 %); few enough, gate.max_flip_rate is 10 %
    """
    from loopeng.improve.gate.statistics import proportion_interval

    if not num_pairs:
        return f"A/A check: nothing could be counted, {count(num_errors, 'pair')} in error"
    low, high = proportion_interval(num_flips, num_pairs)
    dropped = f"; {count(num_errors, 'pair')} dropped for errors" if num_errors else ""
    rate = num_flips / num_pairs
    told = "too many: a test would end as noisy" if rate > max_flip_rate else "few enough"
    return (
        f"A/A check: {num_flips} of {count(num_pairs, 'verdict')} flip ({percent(rate)}, 95 % "
        f"interval {percent(low)} to {percent(high)}); {told}, gate.max_flip_rate is {percent(max_flip_rate)}{dropped}"
    )


def ledger_text(entries: Sequence[LedgerEntry], proposal_id: str) -> str:
    """One line for each look; those of ``proposal_id``, all its revisions, are marked."""
    if not entries:
        return ""
    rows = [("look", "alpha", "p", "verdict", "proposal", "samples", "")]
    for entry in entries:
        look, (verdict, p_value) = entry.look, _outcome(entry)
        rows.append(
            (
                "-" if look.void else str(look.number),
                "-" if look.void else f"{look.alpha:.3g}",
                "-" if p_value is None else p_text(p_value).removeprefix("p ").removeprefix("= "),
                verdict,
                f"{look.proposal_id} revision {look.revision}",
                str(len(look.sample_keys)),
                "<- this proposal" if look.proposal_id == proposal_id else "",
            )
        )
    return columns(rows, right=(0, 5))


def ledger_document(entries: Sequence[LedgerEntry]) -> list[dict[str, Any]]:
    """The ledger as plain values."""
    return [
        {
            "look": entry.look.number,
            "alpha": entry.look.alpha,
            "alpha_total": entry.look.alpha_total,
            "void": entry.look.void,
            "p_value": _outcome(entry)[1],
            "verdict": _outcome(entry)[0],
            "proposal": entry.look.proposal_id,
            "revision": entry.look.revision,
            "dataset": entry.look.dataset,
            "num_samples": len(entry.look.sample_keys),
            "created_at": entry.look.created_at,
        }
        for entry in entries
    ]


def _outcome(entry: LedgerEntry) -> tuple[str, float | None]:
    if entry.report is None:
        return "under way", None
    verdict = f"{entry.report.verdict} (void)" if entry.look.void else entry.report.verdict
    return verdict, entry.report.test.p_value if entry.report.test is not None else None
