"""``loopeng gate``: the plan, what is left of the test, its report, and the A/A check."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from loopeng.store import LoopStore

if TYPE_CHECKING:
    from tests.loopeng.cli.conftest import Invoke, Shop

LIMITED = "improve: {limits: {attempts: 3}}\n"


@pytest.fixture
def stopped(shop: Shop, invoke: Invoke) -> str:
    """The id of a proposal whose test a limit stopped."""
    task = (shop.folder / "task.yaml").read_text()
    shop.write("task.yaml", task + LIMITED)
    invoke("run", code=3)
    with LoopStore.open(shop.db) as store:
        (proposal,) = store.proposals()
        assert proposal.state == "testing" and len(store.looks("describe")) == 1
    return proposal.id


def test_a_finished_gate_is_shown_with_its_ledger(ran: Shop, pending: dict[str, Any], invoke: Invoke) -> None:
    text = invoke("gate", pending["id"]).stdout
    assert "gate 0/5 -> 5/5 first attempts pass" in text and "5 pairs are too few to tell" in text
    assert "alpha ledger" in text
    assert re.search(rf" 1  0\.025  0\.031  underpowered  {pending['id']} revision 1 +5  <- this proposal", text)
    document = json.loads(invoke("gate", pending["id"], "--json").stdout)
    assert document["gate"]["test"]["p_value"] == 2**-5 and document["holdout"]["verdict"] == "untested"
    (line,) = document["ledger"]
    assert (line["look"], line["alpha"], line["verdict"], line["num_samples"]) == (1, 0.025, "underpowered", 5)


def test_a_plan_runs_nothing_and_reserves_nothing(ran: Shop, pending: dict[str, Any], invoke: Invoke) -> None:
    with LoopStore.open(ran.db) as store:
        num_runs, num_looks = len(store.runs()), len(store.looks("describe"))
        text = invoke("gate", pending["id"], "--plan").stdout
        document = json.loads(invoke("gate", pending["id"], "--plan", "--json").stdout)
        assert (len(store.runs()), len(store.looks("describe"))) == (num_runs, num_looks)
    assert "gate of 5 samples, look 1 at alpha 0.025; 0 % pass now, expected power 0 %" in text
    assert "samples: p-05, p-06, p-07, p-08, p-09" in text
    assert document["samples"] == [f"p-{index:02d}" for index in range(5, 10)] and document["reason"] is None
    assert document["test"]["look"] == 1 and document["test"]["p_value"] is None


def test_a_test_that_a_limit_stopped_goes_on_once_the_limit_is_raised(shop: Shop, stopped: str, invoke: Invoke) -> None:
    result = invoke("gate", stopped, code=5)
    assert "budget: improve.limits.attempts" in result.stdout
    assert f"{stopped}: gate of 5 samples, look 1 at alpha 0.025" in result.stderr
    shop.change(LIMITED, "")
    assert f"proposal {stopped}  revision 1, pending" in invoke("gate", stopped, "--quiet").stdout
    with LoopStore.open(shop.db) as store:
        assert len(store.looks("describe")) == 1


def test_a_test_in_error_exits_4(shop: Shop, stopped: str, invoke: Invoke) -> None:
    shop.change(LIMITED, "")
    shop.write("script.yaml", 'replies: [{when: "Describe", error: "out of steam"}]')
    told = invoke("gate", stopped, "--quiet", code=4).stdout
    assert "testing (" in told and "had an attempt in error" in told and "error (void)" in told


def test_an_aa_check_of_a_pending_proposal(ran: Shop, pending: dict[str, Any], invoke: Invoke) -> None:
    told = invoke("gate", pending["id"], "--aa").stdout
    assert (
        told
        == "A/A check: 0 of 5 verdicts flip (0 %, 95 % interval 0 % to 52 %); few enough, gate.max_flip_rate is 10 %\n"
    )
    document = json.loads(invoke("gate", pending["id"], "--aa", "--json").stdout)
    assert (document["num_flips"], document["num_pairs"], document["flipped_samples"]) == (0, 5, [])
    with LoopStore.open(ran.db) as store:
        assert [run.arm for run in store.runs(kind="gate")] == ["repeat", "candidate", "baseline"]
        assert store.proposal(pending["id"]).state == "pending"


def test_mistakes_are_told(ran: Shop, pending: dict[str, Any], invoke: Invoke) -> None:
    assert "give one of them" in invoke("gate", pending["id"], "--aa", "--plan", code=2).stderr
    assert "no proposal 'prop-none'" in invoke("gate", "prop-none", code=2).stderr
