"""The texts of reports, from summaries alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from loopeng.cards import word_diff
from loopeng.report.layout import columns, count, excerpt, rate
from loopeng.report.terminal import (
    FailureView,
    NextCommands,
    ProposalView,
    evidence_lines,
    failures_text,
    proposal_text,
    run_text,
)
from loopeng.report.terminal_card import marked_diff
from loopeng.run_summary import RunSummary, SplitSummary
from loopeng.schema import FailurePattern, GateReport, PairedCount, Revision, Rule, Run, Usage
from loopeng.schema.evidence import GateVerdict
from loopeng.schema.task import RunSpec

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def make_run(run_id: str = "run-1", **changes: object) -> Run:
    fields = {
        "id": run_id,
        "kind": "suite",
        "task_name": "shop",
        "task_hash": "t",
        "prompt_name": "describe",
        "prompt_version_id": "ver-1",
        "status": "finished",
        "created_at": NOW,
    }
    return Run.model_validate(fields | changes)


def make_summary(passed: int, run: Run | None = None, *, first_errors: int = 0, errors: int = 0) -> RunSummary:
    total = SplitSummary(16, passed, passed + 2, errors, first_errors)
    return RunSummary(
        run=run or make_run(),
        total=total,
        splits={"gate": total},
        attempts=30,
        error_attempts=0,
        usage=Usage(prompt_tokens=1200, generated_tokens=3400, decode_passes=2000),
        latency_s=10.0,
        tokens_per_second=340.0,
        acceptance_length=1.7,
    )


def make_report(
    verdict: GateVerdict = "untested", *, pairs: int = 16, split: str = "gate", **changes: object
) -> GateReport:
    counts = PairedCount(num_pairs=pairs, both_passed=0, fixed=min(13, pairs), broken=0, both_failed=max(pairs - 13, 0))
    fields = {
        "proposal_id": "prop-1",
        "revision": 1,
        "split": split,
        "verdict": verdict,
        "pairs": counts,
        "created_at": NOW,
    }
    return GateReport.model_validate(fields | changes)


def test_a_run() -> None:
    text = run_text(make_summary(4), version=2, goal=RunSpec(min_pass_rate=0.5, on="first"))
    assert text.splitlines() == [
        "run run-1  shop, prompt describe version 2: finished",
        "",
        "         samples  first attempt  final        errors",
        "  total       16  4/16 (25 %)    6/16 (38 %)       0",
        "  gate        16  4/16 (25 %)    6/16 (38 %)       0",
        "",
        "30 attempts · 3,400 tokens generated · 1,200 prompt tokens · 340.0 tokens/s · acceptance length 1.70",
        "goal: 50 % of the samples pass at the first attempt: not reached",
    ]


def test_an_engine_that_decodes_nothing_has_no_speed() -> None:
    summary = replace(make_summary(4), usage=Usage(generated_tokens=3400), acceptance_length=None)
    assert run_text(summary).endswith("30 attempts · 3,400 tokens generated · 0 prompt tokens")


def test_a_sample_in_error_is_neither_passed_nor_failed() -> None:
    text = run_text(make_summary(4, first_errors=4, errors=2))
    assert "4/12 (33 %)    6/14 (43 %)  4 at first, 2 in the end" in text


def test_a_run_that_was_stopped_has_no_verdict() -> None:
    run = make_run(status="budget", stop_reason="limits.attempts")
    text = run_text(make_summary(4, run), goal=RunSpec())
    assert "budget (limits.attempts)" in text
    assert "goal" not in text


def test_the_comparison_is_one_line() -> None:
    text = run_text(make_summary(13), previous=(make_summary(0, make_run("run-0")), 1))
    assert text.splitlines()[-1] == (
        "before: run-0 under version 1 had first attempts 0/16 (0 %), final 2/16 (12 %); "
        "now first attempts 13/16 (81 %), final 15/16 (94 %)"
    )


@pytest.mark.parametrize(
    ("gate", "holdout", "expected"),
    [
        (None, None, ["gate: not run"]),
        (
            make_report(),
            make_report(split="holdout"),
            [
                "gate 0/16 -> 13/16 first attempts pass (13 fixed, 0 broken)",
                "holdout 0/16 -> 13/16 first attempts pass (13 fixed, 0 broken): +81 points, 95 % interval +50 to +93",
                "no evidence: not tested",
            ],
        ),
        (
            make_report(),
            make_report(split="holdout", pairs=0, num_errors=2),  # nothing counted, so nothing is sure
            [
                "gate 0/16 -> 13/16 first attempts pass (13 fixed, 0 broken)",
                "holdout no pairs counted (2 in error)",
                "no evidence: not tested; 2 pairs dropped for errors",
            ],
        ),
        (
            make_report("not_replayable", pairs=0, note="no evidence: a live engine"),
            None,
            ["no evidence: a live engine"],
        ),
        (
            make_report("pass", num_errors=1),
            None,
            [
                "gate 0/16 -> 13/16 first attempts pass (13 fixed, 0 broken)",
                "evidence of improvement; 1 pair dropped for errors",
            ],
        ),
    ],
)
def test_the_evidence(gate: GateReport | None, holdout: GateReport | None, expected: list[str]) -> None:
    assert evidence_lines(gate, holdout) == expected


def test_a_proposal_with_and_without_commands() -> None:
    revision = Revision(
        proposal_id="prop-1",
        revision=1,
        operations=(),
        rules=(Rule(id="r", text="Be brief."),),
        text_hash="0123456789abcdef",
        author="hints",
        created_at=NOW,
    )
    commands = NextCommands(show="S", approve="A", edit="E", reject="R")
    shown = proposal_text(ProposalView(revision, "pending", None, ("+ Be brief.",), None, None, commands))
    assert shown.splitlines() == [
        "proposal prop-1  revision 1, pending, text 01234567",
        "    + Be brief.",
        "    gate: not run",
        "    show     S",
        "    approve  A",
        "    edit     E",
        "    reject   R",
    ]
    stale = proposal_text(ProposalView(revision, "stale", "the head moved", ("+ Be brief.",), None, None, None))
    assert "stale (the head moved)" in stale
    assert "approve" not in stale


def test_failures_show_a_real_output_on_one_line() -> None:
    pattern = FailurePattern(
        id="pat-1",
        prompt_name="describe",
        fingerprint="v1:0",
        evaluator="short",
        category="length.too_long",
        reason="<n> words",
        created_at=NOW,
    )
    text = failures_text([FailureView(pattern, 1, "p-1", "44 words", "One\n\x1b[2Jtwo")])
    assert text.splitlines()[1:] == [
        "  pat-1  1 sample  short: length.too_long  [open]",
        "      sample p-1: 44 words",
        '      "One �[2Jtwo"',
    ]
    assert "no recurring failures" in failures_text([])


def test_a_diff_marks_each_line_by_itself() -> None:
    marked = marked_diff(word_diff("Say it in 25 words.\n", "Say it in 20 words.\n\nRules:\n- Be kind.\n"))
    assert marked == "Say it in [-25-]{+20+} words.\n\n{+Rules:+}\n{+- Be kind.+}\n"


def test_layout() -> None:
    assert rate(0, 0) == "0/0"
    assert count(0, "pair") == "0 pairs"
    assert excerpt("x" * 200, 10) == '"xxxxxxxxx…"'
    assert columns([]) == ""
