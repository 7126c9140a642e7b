"""An application's traffic on the command line, which makes its engine from what the calls have said of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from loopeng import Loop

if TYPE_CHECKING:
    from tests.loopeng.cli.conftest import Invoke, Shop

TEMPLATE = "Describe this product: {{ product }}{{ rules }}"
SPECS = [{"id": "one-sentence", "type": "sentences", "max": 1}]


def call(shop: Shop, count: int = 40) -> None:
    engine = {"kind": "scripted", "script": str(shop.folder / "script.yaml")}
    with Loop.open(shop.db) as loop:
        for number in range(count):
            loop.attempt(
                "describe", {"product": f"thing {number}"}, evaluators=SPECS, template=TEMPLATE, engine=engine,
                max_attempts=1,
            )  # fmt: skip


@pytest.fixture
def app(shop: Shop) -> Shop:
    """Forty calls, and no task file anywhere."""
    call(shop)
    (shop.folder / "task.yaml").unlink()
    return shop


def test_runs_are_not_flooded(app: Shop, invoke: Invoke) -> None:
    assert json.loads(invoke("runs", "list", "--json").stdout) == []
    (row,) = json.loads(invoke("runs", "list", "--kind", "live", "--json").stdout)
    assert (row["run"]["task_name"], row["total"]["samples"]) == ("live:describe", 40)
    text = invoke("runs", "list", "--kind", "live").stdout
    assert "live:describe" in text and "finished" in text
    shown = invoke("runs", "show", row["run"]["id"]).stdout
    assert "one-sentence" in shown


def test_failures_know_how_many_calls_could_have_failed(app: Shop, invoke: Invoke) -> None:
    (failure,) = json.loads(invoke("failures", "list", "--json").stdout)
    assert failure["num_samples"] == failure["num_judged"] > 0
    assert "very fine" in failure["example"]["output"]
    text = invoke("failures", "show", failure["id"]).stdout
    assert f"propose --pattern {failure['id']} live:describe" in text


def test_propose_and_approve_from_another_process(app: Shop, invoke: Invoke) -> None:
    (proposal,) = json.loads(invoke("propose", "live:describe", "--json").stdout)
    with Loop.open(app.db) as loop:
        (card,) = loop.queue()
        assert card.id == proposal["id"] and card.gate is not None and card.gate.verdict == "pass"
    invoke("queue", "approve", card.id, "--seen", card.text_hash[:8])
    call(app, 1)
    with Loop.open(app.db) as loop:
        newest = loop.store.runs(kind="live", limit=1)[0]
        assert [attempt.verdict for attempt in loop.store.attempts(newest.id)] == ["pass"]
    assert invoke("propose", "live:describe").stdout == ""


def test_without_traffic(shop: Shop, invoke: Invoke) -> None:
    invoke("run", code=3)
    assert "no calls of prompt 'describe' were recorded" in invoke("propose", "live:describe", code=2).stderr
    assert "live:describe" in invoke("propose", "--help").stdout
