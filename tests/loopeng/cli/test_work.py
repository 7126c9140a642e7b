"""``loopeng work``: what waits for a machine, and how the worker says what stopped it."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from loopeng.cli.working import Patience
from loopeng.errors import EngineError
from loopeng.improve import Step
from loopeng.schema import Proposal, utc_now
from loopeng.store import LoopStore

if TYPE_CHECKING:
    from tests.loopeng.cli.conftest import Invoke, Shop

Pending = dict[str, Any]


def queue_an_edit(pending: Pending, invoke: Invoke, rule: str = "Write exactly one short sentence.") -> None:
    invoke("queue", "edit", pending["id"], "--seen", pending["text_hash"][:8], "--rule", rule)


def test_the_document_says_what_became_of_each(ran: Shop, pending: Pending, invoke: Invoke) -> None:
    queue_an_edit(pending, invoke)
    document = json.loads(invoke("work", "--json").stdout)
    (done,) = document["proposals"]
    assert (done["id"], done["before"], done["state"], done["outcome"]) == (
        pending["id"], "testing", "pending", "moved"
    )  # fmt: skip
    assert (document["deliveries"], document["exit_code"]) == ([], 0)
    assert json.loads(invoke("work", "--json").stdout)["proposals"] == []


def test_a_limit_is_exit_5_and_says_what_to_raise(shop: Shop, invoke: Invoke) -> None:
    shop.write("task.yaml", (shop.folder / "task.yaml").read_text() + "improve: {limits: {attempts: 3}}\n")
    invoke("run", "--quiet", code=3)
    (waiting,) = json.loads(invoke("queue", "list", "--json").stdout)
    assert waiting["state"] == "testing"
    stopped = invoke("work", code=5).stdout
    assert "budget: improve.limits.attempts" in stopped
    assert "raise improve.limits.attempts in the task file, then  loopeng propose task.yaml\n" in stopped
    shop.change("attempts: 3", "attempts: 300")
    assert "pending" in invoke("propose", "task.yaml").stdout


def test_what_breaks_is_told_with_its_exit_code(ran: Shop, pending: Pending, invoke: Invoke) -> None:
    queue_an_edit(pending, invoke)
    with LoopStore.open(ran.db) as store:  # the folder was moved: the task file beside the database counts
        task = store.task(store.proposal(pending["id"]).task_hash)
        store.save_task(task.model_copy(update={"path": ran.folder.parent / "gone" / "task.yaml"}))
    (ran.folder / "script.yaml").rename(ran.folder / "elsewhere.yaml")
    broken = invoke("work", code=2).stdout
    assert f"{pending['id']}  testing -> testing (" in broken and "script.yaml" in broken
    (ran.folder / "elsewhere.yaml").rename(ran.folder / "script.yaml")
    assert f"{pending['id']}  testing -> pending" in invoke("work").stdout


@pytest.mark.parametrize("every", ["soon", "0s"])
def test_how_often_is_a_duration(ran: Shop, invoke: Invoke, every: str) -> None:
    assert "--every" in invoke("work", "--follow", "--every", every, code=2).stderr


def test_a_worker_that_follows_until_it_is_interrupted(
    ran: Shop, pending: Pending, invoke: Invoke, started: Callable[..., subprocess.Popen[str]]
) -> None:
    """It finds what is queued while it waits; Ctrl-C loses nothing and says how to go on."""
    worker = started("work", "--follow", "--every", "1s")
    time.sleep(1)
    queue_an_edit(pending, invoke)
    assert worker.stdout is not None
    assert worker.stdout.readline().startswith(f"{pending['id']}  testing -> pending")
    with LoopStore.open(ran.db) as store:
        assert store.proposal(pending["id"]).state == "pending"
    worker.send_signal(signal.SIGINT)
    _, stderr = worker.communicate(timeout=60)
    assert worker.returncode == 130
    assert "interrupted; everything is saved. Go on with:\n" in stderr and "loopeng work" in stderr


def test_the_webhook_is_called_by_the_worker(
    ran: Shop, pending: Pending, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a secret it waits, and every command says so; nothing breaks."""
    monkeypatch.delenv("MY_SECRET", raising=False)
    text = (ran.folder / "task.yaml").read_text()
    ran.write("task.yaml", text + "approval: {webhook: {url: 'http://127.0.0.1:9/', secret_env: MY_SECRET}}\n")
    assert "warning: approval.webhook: the webhook is not called unsigned: set MY_SECRET" in invoke("check").stdout
    assert "set MY_SECRET" in json.loads(invoke("check", "--json").stdout)["remarks"][-1]["text"]
    invoke("queue", "reject", pending["id"], "--seen", pending["text_hash"][:8], "--reason", "other words")
    with LoopStore.open(ran.db) as store:
        pattern = store.patterns("describe")[0].id
    proposed = invoke("propose", "task.yaml", "--pattern", pattern)
    assert "note: the webhook does not know of prop-" in proposed.stderr and "set MY_SECRET" in proposed.stderr
    monkeypatch.setenv("MY_SECRET", "s")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    worked = invoke("work").stdout
    assert "revision 1: no answer: ConnectError" in worked and "; next try 20" in worked


def step(state: Any, outcome: str, revision: int = 1) -> Step:
    proposal = Proposal(
        id="prop-1", prompt_name="p", task_name="t", task_hash="h", base_version_id="v", pattern_ids=(),
        state=state, revision=revision, created_at=utc_now(),
        state_reason="budget: improve.limits.attempts: 3 of 3 used" if outcome == "limit" else "it broke",
    )  # fmt: skip
    return Step(proposal, proposal, EngineError("it broke") if outcome == "broken" else None)


def test_what_breaks_is_tried_later_and_later_then_not_at_all() -> None:
    """A worker that tests a broken proposal every ten seconds for ever would burn a machine."""
    now = [0.0]
    patience = Patience(10, clock=lambda: now[0])
    pauses = []
    for _ in range(5):
        patience.note([broken := step("testing", "broken")])
        began = now[0]
        while patience.skip and now[0] < began + 10_000:
            assert patience.skip == [broken.after]
            now[0] += 10
        pauses.append(now[0] - began)
    assert pauses == [20, 40, 80, 160, 10_000]


def test_a_limit_is_not_tried_again_and_success_is_forgotten() -> None:
    patience = Patience(10, clock=lambda: 0.0)
    patience.note([step("testing", "limit")])
    assert len(patience.skip) == 1
    patience.note([step("pending", "moved")])
    assert patience.skip == []
