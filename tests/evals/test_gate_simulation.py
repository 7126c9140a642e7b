"""The gate's two promises on fixed seeds, in small; and that gates which break them are found out."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import binom, binomtest

from evals.bench import gate as bench
from loopeng.improve.gate.statistics import expected_power

SURE = 0.001  # chance that a right gate fails one of these checks on a seed that nobody chose


@pytest.fixture(scope="module")
def tallies() -> dict[str, bench.Tally]:
    gates = {"ours": bench.our_gate, "better": bench.keep_if_better, "uncorrected": bench.uncorrected}
    return bench.false_commits(gates, num_pairs=40, num_sequences=250, seed=20260101)


def too_many(share: bench.Share, allowed: float = bench.MAX_FALSE_COMMITS) -> bool:
    """More than a rate of ``allowed`` explains."""
    return share.count > binom.isf(SURE, share.total, allowed)


def test_useless_changes_do_not_pass_however_often_they_are_tried(tallies: dict[str, bench.Tally]) -> None:
    ours = tallies["ours"]
    assert (ours.sequences.total, ours.proposals.total) == (250, 1250)
    assert not too_many(ours.sequences) and not too_many(ours.proposals, 0.025)


@pytest.mark.parametrize("mutant", ["better", "uncorrected"])
def test_a_gate_without_statistics_or_without_a_ledger_is_found_out(
    tallies: dict[str, bench.Tally], mutant: str
) -> None:
    assert too_many(tallies[mutant].sequences)
    assert tallies[mutant].sequences.count > 3 * tallies["ours"].sequences.count


def test_the_ledger_in_a_database_gives_the_same_verdicts() -> None:
    gates = {"ours": bench.our_gate}
    with bench.database_ledgers() as ledger:
        kept = bench.false_commits(gates, num_pairs=16, num_sequences=3, seed=1, ledger=ledger)
        numbers = [look.number for look in map(ledger(), range(3)) if look is not None]
    assert kept == bench.false_commits(gates, num_pairs=16, num_sequences=3, seed=1)
    assert numbers == [1, 2, 3]


def test_the_announced_power_is_kept() -> None:
    announced = expected_power(40, bench.BASE_RATE, bench.SPEC.alpha / 2)
    realised = bench.realised_power(bench.effective_pairs, 40, 600, seed=20260101)
    assert binomtest(realised.count, realised.total, announced).pvalue > SURE
    independent = bench.realised_power(bench.independent_pairs, 40, 600, seed=20260101)
    assert binomtest(independent.count, independent.total, announced).pvalue < SURE  # pairing is what buys it


def test_a_gate_that_tests_at_more_than_it_says_is_seen_in_its_power() -> None:
    announced = expected_power(40, bench.BASE_RATE, bench.SPEC.alpha / 2)
    chance = random.Random(20260101)
    passed = sum(bench.uncorrected(bench.effective_pairs(chance, 40), None) for _ in range(600))
    assert binomtest(passed, 600, announced).pvalue < SURE


def test_the_command_writes_its_numbers_and_fails_where_a_bar_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "gate.json"
    command = ["gate", "--sequences", "2", "--simulations", "100", "--output", str(path)]
    monkeypatch.setattr("sys.argv", command)
    monkeypatch.setattr(bench, "NUM_PAIRS", (8, 40))
    monkeypatch.setattr(bench, "MAX_POWER_GAP", 0.2)
    assert bench.main() == 0
    document: dict[str, Any] = json.loads(path.read_text())
    assert [row["num_pairs"] for row in document["null"]] == [8, 40] and document["null"][0]["database_agrees"]
    assert "keep_if_better" in capsys.readouterr().out
    monkeypatch.setattr(bench, "our_gate", bench.keep_if_better)
    assert bench.main() == 1
