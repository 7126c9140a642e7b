"""A gate's test and the ledger in words."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from loopeng.attempt.events import GatePlanned
from loopeng.cli.progress import Progress, plan_remark
from loopeng.improve.gate.planning import LedgerEntry
from loopeng.report.evidence import finding_line, ledger_document, ledger_text, noise_text
from loopeng.schema import GateReport, GateTest, Look, PairedCount

NOW = datetime(2026, 1, 2, tzinfo=UTC)
PAIRS = PairedCount(num_pairs=16, both_passed=0, fixed=14, broken=0, both_failed=2)


def report(note: str = "within alpha 0.025", *, deterministic: bool = True, **test: Any) -> GateReport:
    values = {"look": 1, "alpha": 0.025, "alpha_total": 0.05, "base_rate": 0.0, "power": 0.895, "p_value": 2**-14}
    effect = {"effect": 0.875, "effect_low": 0.58, "effect_high": 0.97}
    return GateReport(
        proposal_id="prop-1", revision=1, split="gate", verdict="pass", pairs=PAIRS, note=note, created_at=NOW,
        deterministic=deterministic, test=GateTest.model_validate(values | effect | test),
    )  # fmt: skip


def test_the_line_has_effect_power_noise_and_harm() -> None:
    assert finding_line(report()) == (
        "effect +88 points (95 % interval +58 to +97) · expected power 90 % · "
        "A/A check skipped: decoding is deterministic · no other evaluator to harm"
    )


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"note": "harm: calm got worse"}, "p < 0.0001 at alpha 0.025 (look 1) · "),
        ({"power": None}, " · expected power unknown · "),
        ({"num_flips": 1, "num_flip_pairs": 16, "deterministic": False}, " · A/A check: 1 of 16 verdicts flip · "),
        ({"harm": {"calm": 1.0}}, " · no harm seen"),
        ({"harm": {"calm": 1.0, "kind": 0.25}}, " · harm: least sure of kind, p = 0.25"),
    ],
)
def test_the_line_says_what_was_special(changes: dict[str, Any], part: str) -> None:
    assert part in finding_line(report(**changes))


def test_nothing_tested_is_no_line() -> None:
    assert finding_line(report(p_value=None)) == ""
    assert finding_line(report().model_copy(update={"test": None})) == ""


def look(number: int, proposal_id: str, **changes: Any) -> Look:
    return Look(
        prompt_name="p", dataset="d", proposal_id=proposal_id, revision=1, number=number, alpha_total=0.05,
        sample_keys=("a", "b"), created_at=NOW, **changes,
    )  # fmt: skip


def test_the_ledger_has_a_line_for_each_look() -> None:
    broken = report(p_value=None).model_copy(update={"verdict": "error"})
    entries = [
        LedgerEntry(look(1, "prop-1"), report()),
        LedgerEntry(look(2, "prop-2", void=True), broken),
        LedgerEntry(look(2, "prop-3"), None),
    ]
    assert ledger_text(entries, "prop-3").splitlines() == [
        "look  alpha    p         verdict       proposal           samples",
        "   1  0.025    < 0.0001  pass          prop-1 revision 1        2",
        "   -  -        -         error (void)  prop-2 revision 1        2",
        "   2  0.00833  -         under way     prop-3 revision 1        2  <- this proposal",
    ]
    assert [(each["verdict"], each["void"], each["p_value"]) for each in ledger_document(entries)] == [
        ("pass", False, 2**-14),
        ("error (void)", True, None),
        ("under way", False, None),
    ]
    assert ledger_text([], "prop-1") == ""


def test_an_aa_check_that_counted_nothing_says_so() -> None:
    assert noise_text(0, 0, 5, 0.1) == "A/A check: nothing could be counted, 5 pairs in error"
    assert "; 1 pair dropped for errors" in noise_text(1, 8, 1, 0.1)


def test_the_plan_is_told_before_the_arms_run() -> None:
    event, progress = GatePlanned("prop-1", 16, 2, 0.05 / 6, None, None), Progress()
    told = "prop-1: gate of 16 samples, look 2 at alpha 0.00833; expected power unknown, as no run under this prompt "
    assert plan_remark(event) == told + "version has judged these samples"
    progress.observe(event)
    assert progress.text() == "gate · samples 0/16 · attempts 0"


def test_an_engine_that_contradicts_itself_too_often_is_called_noisy() -> None:
    assert "too many: a test would end as noisy, gate.max_flip_rate is 10 %" in noise_text(7, 20, 0, 0.1)
