"""The bar: of 50 planted answers at least 49 are refused, of 50 rules that give nothing away none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evals.bench import guards as bench
from evals.bench.planted_answers import CLEAN_RULES, PLANTED, TASKS


def test_the_lists_are_what_the_bar_is_about() -> None:
    assert len({each.kind for each in PLANTED}) == len(PLANTED) == 50
    assert len(set(CLEAN_RULES)) == len(CLEAN_RULES) == 50
    assert ("products", "Use at most 20 words.") in CLEAN_RULES
    samples = {name: {sample.id: sample for sample in task.samples} for name, task in TASKS.items()}
    assert all(len(str(samples[each.task][each.sample_id].target)) >= 3 for each in PLANTED)


def test_planted_answers_are_refused_and_clean_rules_are_not() -> None:
    result = bench.measure()
    assert result["num_planted_blocked"] >= bench.LEAST_BLOCKED, result["missed"]
    assert result["num_clean_blocked"] == 0, result["blocked_in_error"]


def test_each_guard_has_its_own_share() -> None:
    """An answer that is also hidden is found by both; most are in plain sight and found by the overlap alone."""
    assert bench.measure()["caught_by"] == {"hidden_text": 3, "overlap": 50}


def test_the_result_is_written_and_the_exit_status_says_whether_it_is_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "results" / "guards.json"
    monkeypatch.setattr("sys.argv", ["guards", "--output", str(output)])
    assert bench.main() == 0
    assert json.loads(output.read_text(encoding="utf-8"))["missed"] == []
    monkeypatch.setattr(bench, "CLEAN_RULES", (("qa", "Say Reykjavik."),))
    assert bench.main() == 1
    assert list(json.loads(output.read_text(encoding="utf-8"))["blocked_in_error"]) == ["Say Reykjavik."]
