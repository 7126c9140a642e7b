"""From counts to a verdict: pure, so that the simulation in ``evals/bench/gate.py`` runs what production runs."""

from __future__ import annotations

from collections.abc import Collection

from loopeng.improve.gate.pairing import Comparison
from loopeng.improve.gate.statistics import HARM_ALPHA, chance_of_so_few, harm_p, mcnemar_p, paired_effect_interval
from loopeng.schema import GateTest, PairedCount
from loopeng.schema.evidence import GateVerdict
from loopeng.schema.improve_sections import GateSpec

__all__ = ["NO_EVIDENCE", "judge", "judge_holdout", "p_text", "percent", "weigh"]

_HARDLY = 0.1
NO_EVIDENCE: frozenset[GateVerdict] = frozenset({"underpowered", "noisy", "not_replayable", "untested"})


def weigh(
    planned: GateTest, comparison: Comparison, *, about: Collection[str], repeat: Comparison | None = None
) -> GateTest:
    """The planned test with what was found.

    ``about`` are the evaluators the proposal is for, and those that only watch: every other one is tested for harm.
    ``repeat`` compares two baseline runs, None where there was no A/A check. Without a pair there is nothing to test.
    """
    pairs = comparison.pairs
    found: dict[str, object] = {}
    if pairs.num_pairs:
        low, high = paired_effect_interval(pairs)
        found |= {
            "p_value": mcnemar_p(pairs.fixed, pairs.broken),
            "effect": (pairs.candidate_passed - pairs.baseline_passed) / pairs.num_pairs,
            "effect_low": low,
            "effect_high": high,
            "harm": {
                evaluator: harm_p(counts.fixed, counts.broken)
                for evaluator, counts in comparison.by_evaluator.items()
                if evaluator not in about
            },
        }
    if repeat is not None and repeat.pairs.num_pairs:
        num_flips, num_pairs = repeat.pairs.fixed + repeat.pairs.broken, repeat.pairs.num_pairs
        found |= {"flip_rate": num_flips / num_pairs, "num_flips": num_flips, "num_flip_pairs": num_pairs}
    return planned.model_copy(update=found)


def judge(
    test: GateTest, comparison: Comparison, spec: GateSpec, repeat: Comparison | None = None
) -> tuple[GateVerdict, str]:
    """The verdict and why, in this order: error, harm, noisy, pass, no better, underpowered, no evidence."""
    if (broken := _why_in_error(comparison, spec, repeat)) is not None:
        return "error", broken
    if (harm := _harm(test, comparison)) is not None:
        return "fail", harm
    if test.flip_rate is not None and test.flip_rate > spec.max_flip_rate:
        return "noisy", (
            f"no evidence: two runs of the current prompt disagree on {test.num_flips} of {test.num_flip_pairs} "
            f"samples ({percent(test.flip_rate)}), more than gate.max_flip_rate allows ({percent(spec.max_flip_rate)})"
        )
    return _improvement(test, comparison, spec)


def _improvement(test: GateTest, comparison: Comparison, spec: GateSpec) -> tuple[GateVerdict, str]:
    pairs, p_value = comparison.pairs, 1.0 if test.p_value is None else test.p_value
    of_look = f"alpha {test.alpha:.3g} of look {test.look}"
    if p_value <= test.alpha:
        return "pass", f"evidence of improvement: {p_text(p_value)}, within {of_look}"
    if pairs.fixed < pairs.broken or (pairs.fixed == pairs.broken and _would_show(pairs)):
        return "fail", f"no improvement: {pairs.fixed} fixed, {pairs.broken} broken"
    missed = f"{p_text(p_value)} is above {of_look}"
    if test.power is None:
        return "underpowered", (
            f"no evidence: {missed}, and nobody knows whether {pairs.num_pairs} pairs could have shown more, as no run "
            "under this prompt version has judged these samples"
        )
    if test.power < spec.min_power:
        return "underpowered", (
            f"no evidence: {missed}, and {pairs.num_pairs} pairs are too few to tell (expected power "
            f"{percent(test.power)}, gate.min_power {percent(spec.min_power)})"
        )
    return "fail", (
        f"no evidence of improvement: {missed} ({pairs.fixed} fixed, {pairs.broken} broken), although a change worth "
        f"having was to be found with a power of {percent(test.power)}"
    )


def _would_show(pairs: PairedCount) -> bool:
    """Whether a change at the stated alternative would hardly have fixed so few of the failing samples.

    Where the prompt fails on three samples, a change that fixes half of them fixes none now and then.
    """
    return chance_of_so_few(pairs.fixed, pairs.fixed + pairs.both_failed) <= _HARDLY


def judge_holdout(comparison: Comparison) -> tuple[GateVerdict, str]:
    """The hold-out is shown and not tested."""
    if (broken := _why_not_comparable([comparison])) is not None:
        return "error", broken
    return "untested", "shown only, no part of the verdict"


def _why_in_error(comparison: Comparison, spec: GateSpec, repeat: Comparison | None) -> str | None:
    compared = [comparison] if repeat is None else [comparison, repeat]
    if (broken := _why_not_comparable(compared)) is not None:
        return broken
    for each in compared:
        total = each.num_errors + each.pairs.num_pairs
        if each.num_errors > spec.max_error_rate * total:
            return (
                f"{each.num_errors} of {total} pairs had an attempt in error, more than gate.max_error_rate allows "
                f"({percent(spec.max_error_rate)})"
            )
    return None


def _why_not_comparable(compared: Collection[Comparison]) -> str | None:
    fingerprints = frozenset().union(*(each.fingerprints for each in compared))
    if len(fingerprints) > 1:
        found = ", ".join(sorted(fingerprints))
        return f"the attempts were made under different numerics ({found}), so the arms cannot be compared"
    for each in compared:
        if each.num_errors and not each.pairs.num_pairs:
            return f"all {each.num_errors} pairs had an attempt in error"
    return None


def _harm(test: GateTest, comparison: Comparison) -> str | None:
    """Of the evaluators that got worse, the surest."""
    evaluator = min(test.harm, key=lambda name: test.harm[name], default=None)
    if evaluator is None or test.harm[evaluator] > HARM_ALPHA:
        return None
    counts = comparison.by_evaluator[evaluator]
    return (
        f"harm: {evaluator}, which the change is not about, got worse ({counts.fixed} fixed, {counts.broken} broken, "
        f"{p_text(test.harm[evaluator])}, blocked at {HARM_ALPHA})"
    )


def p_text(p_value: float) -> str:
    """A p-value for people.

    >>> p_text(2**-14), p_text(0.03125), p_text(1.0)
    ('p < 0.0001', 'p = 0.031', 'p = 1')
    """
    return "p < 0.0001" if p_value < 1e-4 else f"p = {p_value:.2g}"


def percent(share: float) -> str:
    """
    >>> percent(0.8), percent(0.995), percent(1.0), percent(0.0004)
    ('80 %', '>99 %', '100 %', '<1 %')
    """
    if 0.99 < share < 1:
        return ">99 %"
    return "<1 %" if 0 < share < 0.01 else f"{100 * share:.0f} %"
