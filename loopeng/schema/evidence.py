"""Paired evidence: what both arms of a gate came to, and the test that was planned before them."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from loopeng.schema.attempts import Arm
from loopeng.schema.base import Noun

__all__ = ["ArmCount", "GateReport", "GateTest", "GateVerdict", "Look", "PairedCount"]

GateVerdict = Literal["pass", "fail", "underpowered", "noisy", "not_replayable", "untested", "error"]


class PairedCount(Noun):
    """Both arms on the same samples with the same seeds, first attempts only."""

    num_pairs: int
    both_passed: int
    fixed: int  # baseline failed, candidate passed
    broken: int  # baseline passed, candidate failed
    both_failed: int

    @property
    def baseline_passed(self) -> int:
        return self.both_passed + self.broken

    @property
    def candidate_passed(self) -> int:
        return self.both_passed + self.fixed


class ArmCount(Noun):
    """What one arm cost."""

    arm: Arm
    run_id: str
    prompt_tokens: int
    generated_tokens: int


class Look(Noun):
    """One entry of the alpha ledger: a test on a set of samples, planned before any compute.

    The k-th look of a prompt at samples that share any with earlier ones is tested at alpha_total / (k (k + 1)).
    Unique by (proposal_id, revision); a void one revealed nothing and its number is free again.
    """

    prompt_name: str
    dataset: str  # for people: the file, or the task's name
    proposal_id: str
    revision: int
    number: int
    alpha_total: float
    sample_keys: tuple[str, ...]  # content hashes of the samples
    void: bool = False
    created_at: datetime

    @property
    def alpha(self) -> float:
        """What this look may spend."""
        return self.alpha_total / (self.number * (self.number + 1))


class GateTest(Noun):
    """Exact one-sided McNemar test of "the candidate passes more often": what was planned, and what was found."""

    look: int
    alpha: float  # of this look
    alpha_total: float
    base_rate: float | None = None  # expected before the runs, from earlier ones; what the power was computed with
    power: float | None = None  # expected before the runs, at the stated alternative
    p_value: float | None = None  # None where there was nothing to test
    effect: float | None = None  # difference of the pass rates, candidate - baseline
    effect_low: float | None = None  # 95 % interval
    effect_high: float | None = None
    harm: dict[str, float] = Field({}, description="By evaluator the proposal is not about: p of 'it got worse'.")
    flip_rate: float | None = None  # A/A: share of samples whose verdict two baseline runs disagree on
    num_flips: int | None = None
    num_flip_pairs: int | None = None


class GateReport(Noun):
    """Paired evidence for one revision on one split. Unique by (proposal_id, revision, split)."""

    proposal_id: str
    revision: int
    split: Literal["gate", "holdout"]
    verdict: GateVerdict
    pairs: PairedCount
    num_errors: int = 0  # pairs dropped because an arm was in error
    by_evaluator: dict[str, PairedCount] = {}
    arms: tuple[ArmCount, ...] = ()
    fixed_samples: tuple[str, ...] = ()
    broken_samples: tuple[str, ...] = ()
    fingerprint: str | None = None
    deterministic: bool = True
    note: str = ""
    test: GateTest | None = None  # of the gate split; the hold-out is shown, not tested
    created_at: datetime

    @property
    def summary(self) -> str:
        """One line for cards and tables."""
        pairs = self.pairs
        if not pairs.num_pairs:
            return f"no pairs counted ({self.num_errors} in error)" if self.num_errors else "no pairs counted"
        return (
            f"{pairs.baseline_passed}/{pairs.num_pairs} -> {pairs.candidate_passed}/{pairs.num_pairs} "
            f"first attempts pass ({pairs.fixed} fixed, {pairs.broken} broken)"
        )
