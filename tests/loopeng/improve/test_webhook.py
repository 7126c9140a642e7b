"""The webhook against a real server on this machine: signed, tried again, and never in the way."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from loopeng.approvals import card, edit, reject, snooze
from loopeng.attempt.events import DeliveryTried, ProgressEvent
from loopeng.attempt.harness import Harness
from loopeng.errors import UsageError
from loopeng.improve import propose, recover, work
from loopeng.improve.webhook import deliver_due, sign, signing_key
from loopeng.schema import Proposal, Task, utc_now
from loopeng.schema.task import ApprovalSpec, WebhookSpec
from loopeng.store import LoopStore

SECRET = "whsec_" + base64.b64encode(b"a key of the receiver").decode()
VARIABLE = "LOOPENG_WEBHOOK_SECRET"


@dataclass
class Receiver:
    """A server that answers with ``answers``, the last one for ever, and keeps what it got."""

    answers: list[int] = field(default_factory=lambda: [200])
    got: list[tuple[Mapping[str, str], bytes]] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def take(self, headers: Mapping[str, str], body: bytes) -> int:
        self.got.append((headers, body))
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    kept = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status = kept.take({name.lower(): value for name, value in self.headers.items()}, body)
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("location", kept.url)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        kept.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield kept
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(VARIABLE, SECRET)


@dataclass
class Later:
    """A store whose clock is ahead."""

    path: Path

    def __call__(self, **by: float) -> LoopStore:
        return LoopStore.open(self.path, clock=lambda: utc_now() + timedelta(**by))


def proposed(store: LoopStore, make_task: Callable[..., Task], url: str, **options: Any) -> Proposal:
    """A proposal of a task with a webhook, as far as it gets."""
    task = make_task(approval=ApprovalSpec(webhook=WebhookSpec(url=url)))
    (proposal,) = propose(Harness.build(store, task, **options))
    return proposal


def test_the_signature_is_that_of_the_specification() -> None:
    """The example of the Standard Webhooks specification."""
    key = signing_key("X", {"X": "whsec_plJ3nmyCDGBKInavdOK15jsl"})
    body = b'{"event_type":"ping","data":{"success":true}}'
    assert sign(key, "msg_loFOjxBNrRLzqYUf", 1731705121, body) == "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0="


def test_a_receiver_can_check_who_calls(
    store: LoopStore, harness: Harness, make_task: Callable[..., Task], receiver: Receiver
) -> None:
    began = int(time.time())
    proposal = proposed(store, make_task, receiver.url)
    ((headers, body),) = receiver.got
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.new(b"a key of the receiver", signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    assert began <= int(headers["webhook-timestamp"]) <= time.time()
    assert (headers["content-type"], headers["webhook-id"]) == ("application/json", f"{proposal.id}-1")
    told = json.loads(body)
    assert told["type"] == "proposal.pending" and told["data"]["text_hash"] == store.revision(proposal.id).text_hash
    assert told["data"]["changes"][0] == {"op": "add", "rule_id": None, "text": "Write exactly one sentence."}
    assert (told["data"]["proposal_id"], told["data"]["revision"]) == (proposal.id, 1)
    assert "first attempts pass" in told["data"]["evidence"]["gate"]
    (delivery,) = store.deliveries()
    assert delivery.delivered_at is not None and (delivery.num_tries, delivery.last_error) == (1, None)
    assert deliver_due(store) == [] and len(receiver.got) == 1


def test_no_sample_and_no_output_leaves_the_machine(
    store: LoopStore, harness: Harness, make_task: Callable[..., Task], receiver: Receiver
) -> None:
    proposed(store, make_task, receiver.url)
    ((_, body),) = receiver.got
    assert b"teapot" not in body and b"A fine thing" not in body


def test_a_call_that_failed_is_made_again_under_the_same_id(
    store: LoopStore, harness: Harness, make_task: Callable[..., Task], receiver: Receiver
) -> None:
    receiver.answers[:] = [500, 429, 200]
    events: list[ProgressEvent] = []
    proposal = proposed(store, make_task, receiver.url, on_event=events.append)
    assert proposal.state == "pending"
    (delivery,) = store.deliveries()
    assert (delivery.num_tries, delivery.last_error, delivery.delivered_at) == (1, "answered 500", None)
    assert [event for event in events if isinstance(event, DeliveryTried)] == [DeliveryTried(delivery)]
    assert deliver_due(store) == []  # not due yet
    later = Later(store.path)
    with later(seconds=6) as soon:
        assert [each.last_error for each in deliver_due(soon)] == ["answered 429"]
    with later(minutes=6) as then:
        recover(then)  # what every command does first
        (done,) = then.deliveries()
    assert done.delivered_at is not None and done.num_tries == 3
    ids = {headers["webhook-id"] for headers, _ in receiver.got}
    assert len(receiver.got) == 3 and ids == {f"{proposal.id}-1"}
    assert len({body for _, body in receiver.got}) == 1


def test_eight_tries_in_about_a_day_are_all(
    store: LoopStore, harness: Harness, make_task: Callable[..., Task], receiver: Receiver
) -> None:
    receiver.answers[:] = [503]
    proposed(store, make_task, receiver.url)
    hours = 0.0
    while (delivery := store.deliveries()[0]).next_try_at is not None:
        hours = (delivery.next_try_at - utc_now()).total_seconds() / 3600
        with LoopStore.open(store.path, clock=lambda at=delivery.next_try_at: at) as then:  # type: ignore[misc]
            assert len(deliver_due(then)) == 1
    assert len(receiver.got) == delivery.num_tries == 8 and 20 < hours < 30
    assert delivery.last_error == "answered 503"
    with Later(store.path)(days=6) as then:
        assert deliver_due(then) == []


@pytest.mark.parametrize(
    ("status", "message"),
    [(400, "answered 400"), (410, "answered 410"), (301, "redirects are not followed"), (307, "redirects are not")],
)
def test_answers_that_another_try_would_not_change(
    store: LoopStore,
    harness: Harness,
    make_task: Callable[..., Task],
    receiver: Receiver,
    status: int,
    message: str,
) -> None:
    receiver.answers[:] = [status]
    assert proposed(store, make_task, receiver.url).state == "pending"
    (delivery,) = store.deliveries()
    assert delivery.next_try_at is None and message in (delivery.last_error or "")
    assert len(receiver.got) == 1


def test_nobody_there_breaks_nothing(store: LoopStore, harness: Harness, make_task: Callable[..., Task]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    assert proposed(store, make_task, f"http://127.0.0.1:{port}").state == "pending"
    (delivery,) = store.deliveries()
    assert "ConnectError" in (delivery.last_error or "") and delivery.next_try_at is not None


@pytest.mark.parametrize("url", ["http://[", "http://\u200bx..y/", "https://127.0.0.1:1/"])
def test_an_address_that_is_none_breaks_nothing(
    store: LoopStore, harness: Harness, make_task: Callable[..., Task], url: str
) -> None:
    assert proposed(store, make_task, url).state == "pending"
    assert store.deliveries()[0].last_error is not None


def test_a_server_that_never_answers_is_left_alone_after_the_time_out(
    store: LoopStore, harness: Harness, make_task: Callable[..., Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And only once in a go: two calls to it do not wait twice."""
    monkeypatch.delenv(VARIABLE)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        task = make_task(
            approval=ApprovalSpec(webhook=WebhookSpec(url=f"http://127.0.0.1:{silent.getsockname()[1]}")),
        )
        propose(Harness.build(store, task))
        second = store.create_proposal(task=task, base=store.head("describe"), pattern_ids=(), expires_at=None)
        (first,) = store.proposals(states=["pending"])
        text = store.revision(first.id).model_copy(update={"proposal_id": second.id})
        store.save_revision(text)
        url = str(task.approval.webhook and task.approval.webhook.url)
        store.move_proposal(second.id, to="pending", frm={"drafting"}, webhook_url=url)
        assert len(store.due_deliveries()) == 2
        monkeypatch.setenv(VARIABLE, SECRET)
        (tried,) = deliver_due(store, timeout_s=0.5)
        silent.setblocking(False)
        silent.accept()[0].close()
        with pytest.raises(BlockingIOError):
            silent.accept()
    assert "ReadTimeout" in (tried.last_error or "")
    assert len(store.due_deliveries()) == 1


@pytest.mark.parametrize(
    ("secret", "message"),
    [
        (None, f"set {VARIABLE} to"),
        ("whsec_%%%", "no base64"),
        ("whsec_é", "no base64"),
        ("whsec_", "nothing follows whsec_"),
        ("\udce9", "no UTF-8"),
    ],
)
def test_nothing_is_sent_unsigned(
    store: LoopStore,
    harness: Harness,
    make_task: Callable[..., Task],
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    secret: str | None,
    message: str,
) -> None:
    monkeypatch.delenv(VARIABLE)
    if secret is not None:
        monkeypatch.setenv(VARIABLE, secret)
    assert proposed(store, make_task, receiver.url).state == "pending"
    (delivery,) = store.deliveries()
    assert message in (delivery.last_error or "") and (delivery.num_tries, receiver.got) == (0, [])
    monkeypatch.setenv(VARIABLE, "a plain secret")
    work(store, harness_for=lambda _: pytest.fail("nothing to test"))
    assert store.deliveries()[0].delivered_at is not None
    ((headers, body),) = receiver.got
    timestamp = int(headers["webhook-timestamp"])
    assert headers["webhook-signature"] == sign(b"a plain secret", headers["webhook-id"], timestamp, body)


def test_a_missing_secret_is_named() -> None:
    with pytest.raises(UsageError, match="set MY_SECRET to the signing secret"):
        signing_key("MY_SECRET", {"MY_SECRET": " "})


def test_what_was_decided_meanwhile_is_not_told(
    store: LoopStore,
    harness: Harness,
    make_task: Callable[..., Task],
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A message that somebody has to look at what is rejected already would only teach people to ignore them."""
    monkeypatch.delenv(VARIABLE)
    proposal = proposed(store, make_task, receiver.url)
    reject(store, proposal.id, by="ana", seen=card(store, proposal.id).text_hash, reason="no")
    monkeypatch.setenv(VARIABLE, SECRET)
    (told,) = deliver_due(store)
    assert "is at revision 1, rejected by now" in (told.last_error or "")
    assert told.next_try_at is None and receiver.got == []


def test_each_revision_that_waits_is_told(
    store: LoopStore, harness: Harness, make_task: Callable[..., Task], receiver: Receiver
) -> None:
    proposal = proposed(store, make_task, receiver.url)
    snooze(store, proposal.id, by="ana", for_="1d")
    snooze(store, proposal.id, by="ana", for_="0s")
    shown = card(store, proposal.id)
    edit(store, proposal.id, by="ben", seen=shown.text_hash, rules=["Use at most 20 words, one sentence."], now=True)
    assert [headers["webhook-id"] for headers, _ in receiver.got] == [f"{proposal.id}-1", f"{proposal.id}-2"]


def test_a_kill_between_pending_and_the_call_loses_no_call(
    after_a_run: Path,
    tmp_path: Path,
    make_task: Callable[..., Task],
    receiver: Receiver,
    child: Callable[[Callable[[], object]], int],
) -> None:
    """The outbox row is there with the state it tells of; the next command makes the call."""
    shutil.copytree(after_a_run, tmp_path, dirs_exist_ok=True)
    database = tmp_path / "loop.db"

    def die(event: ProgressEvent) -> None:
        if getattr(event, "state", None) == "pending":
            os.kill(os.getpid(), signal.SIGKILL)

    def proposing() -> None:
        with LoopStore.open(database) as own:
            proposed(own, make_task, receiver.url, on_event=die)

    assert os.WIFSIGNALED(os.waitpid(child(proposing), 0)[1])
    assert receiver.got == []
    with LoopStore.open(database) as store:
        (proposal,) = store.proposals()
        assert proposal.state == "pending"
        recover(store)
        assert [headers["webhook-id"] for headers, _ in receiver.got] == [f"{proposal.id}-1"]
        recover(store)
    assert len(receiver.got) == 1


@pytest.mark.parametrize("status", [408, 429])
def test_answers_that_may_change_are_asked_for_again(
    store: LoopStore, harness: Harness, make_task: Callable[..., Task], receiver: Receiver, status: int
) -> None:
    receiver.answers[:] = [status]
    proposed(store, make_task, receiver.url)
    assert store.deliveries()[0].next_try_at is not None
