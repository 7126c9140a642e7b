"""The history of a prompt, line by line."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from loopeng.report.history import evidence_text, history_text
from loopeng.schema import Decision, PromptVersion, Watch

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def version(number: int, **changes: Any) -> PromptVersion:
    fields = {
        "id": f"ver-{number}",
        "prompt_name": "describe",
        "number": number,
        "template": "{{ rules }}",
        "text_hash": f"{number}" * 64,
        "source": "task file",
        "created_by": "ana",
        "created_at": NOW + timedelta(hours=number),
    }
    return PromptVersion.model_validate(fields | changes)


def decision(action: str, **changes: Any) -> Decision:
    fields = {
        "id": "dec-1",
        "action": action,
        "prompt_name": "describe",
        "by": "ben",
        "seen_hash": "",
        "created_at": NOW + timedelta(hours=5),
    }
    return Decision.model_validate(fields | changes)


@pytest.mark.parametrize(
    ("made", "shown"),
    [
        (
            decision("approve", proposal_id="prop-1", revision=2, seen_hash="a" * 64, automatic=True, by="loopeng"),
            "approve    loopeng  prop-1 revision 2, saw aaaaaaaa, automatic",
        ),
        (
            decision("snooze", proposal_id="prop-1", evidence={"until": "2026-01-03"}, reason="after the fair"),
            "snooze     ben  prop-1, reason: after the fair, evidence: until 2026-01-03",
        ),
        (
            decision("mute", reason="wanted", evidence={"pattern_id": "pat-1"}),
            "reason: wanted, evidence: pattern id pat-1",
        ),
        (
            decision("rollback", version_id="ver-1", evidence={"from_version_id": "ver-2"}),
            "to version 1, evidence: from version id ver-2 (2)",
        ),
    ],
)
def test_every_decision_can_be_read(made: Decision, shown: str) -> None:
    text = history_text(version(2), [version(1), version(2)], [made])
    assert shown in text.splitlines()[-1]
    assert text.splitlines()[1].endswith("<- current")


def test_lines_stand_in_the_order_of_time() -> None:
    watch = Watch(
        prompt_version_id="ver-1", pattern_id="pat-1", proposal_id="p", rate_before=0.5, rate_after=0.1,
        created_at=NOW + timedelta(minutes=90),
    )  # fmt: skip
    lines = history_text(version(2), [version(1), version(2)], [], [watch]).splitlines()
    assert [line.split()[3] for line in lines] == ["version", "watch", "version"]
    assert "pat-1 from version 1 on: failure rate 50 % before, 10 % at the commit" in lines[1]


@pytest.mark.parametrize(
    ("evidence", "text"),
    [
        ({}, ""),
        (
            {"gate": {"verdict": "not_replayable", "pairs": {"num_pairs": 0}, "num_errors": 2}},
            "gate not replayable, 2 in error",
        ),
        ({"gate": {"verdict": "pass", "p_value": 0.5}}, "gate pass, p = 0.5"),
        ({"watch": {"num_samples": 9, "e_value": 61.5}}, "watch num samples 9; e value 61.5"),
        ({"merged": ["pat-1", "pat-2"], "nothing": []}, "merged pat-1, pat-2"),
    ],
)
def test_evidence_of_any_shape(evidence: dict[str, Any], text: str) -> None:
    assert evidence_text(evidence) == text
