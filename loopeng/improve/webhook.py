"""Tells a URL that a proposal waits for a person: one POST, signed as the Standard Webhooks specification says.

At least once: the outbox row is written with the state it tells of, every try is counted before it is made, and the
``webhook-id`` stays the same over all tries, so that a receiver can drop what it has seen. No sample and no output of a
model leaves the machine. Nothing here breaks the work around it: what fails is noted and tried again later.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from loopeng.attempt.events import DeliveryTried, ProgressEvent
from loopeng.attempt.harness import ignore_event
from loopeng.errors import UsageError
from loopeng.schema import Delivery, Proposal, utc_now
from loopeng.store import LoopStore

__all__ = ["deliver_due", "secret_problem", "sign", "signing_key"]

_TIMEOUT_S = 10.0
_PAUSES_S = (5, 300, 1800, 7200, 18_000, 25_200, 36_000)  # between the tries: eight in about a day
_PREFIX = "whsec_"
_TRY_AGAIN = frozenset({408, 429})


def deliver_due(
    store: LoopStore,
    *,
    proposal_id: str | None = None,
    on_event: Callable[[ProgressEvent], None] = ignore_event,
    timeout_s: float = _TIMEOUT_S,
) -> list[Delivery]:
    """Make one try for every call that is due (or for a proposal's), and return what became of them.

    A URL that does not answer is not tried twice in one go: the other calls to it stay due.
    """
    tried, silent = [], set[str]()
    for delivery in store.due_deliveries():
        if delivery.url in silent or (proposal_id is not None and delivery.proposal_id != proposal_id):
            continue
        outcome = _deliver(store, delivery, timeout_s)
        if outcome is None:
            continue  # another process makes this try
        if outcome.delivered_at is None:
            silent.add(delivery.url)
        tried.append(outcome)
        on_event(DeliveryTried(outcome))
    return tried


def sign(key: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    """The value of ``webhook-signature``: ``v1,`` and HMAC-SHA256 of id, time and body, joined by points.

    >>> sign(b"secret", "msg_1", 1614265330, b"{}")
    'v1,3/iD+UC/cFPl3PtRMPUcvEULlwun6jyVUEMvdX3yW5g='
    """
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def signing_key(variable: str, environment: Mapping[str, str] = os.environ) -> bytes:
    """The secret that a variable holds: base64 after ``whsec_``, else the text itself. Raises UsageError."""
    secret = environment.get(variable, "").strip()
    if not secret:
        raise UsageError(f"the webhook is not called unsigned: set {variable} to the signing secret")
    try:
        if not secret.startswith(_PREFIX):
            return secret.encode()
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except UnicodeEncodeError as error:
        raise UsageError(f"{variable} is no UTF-8 text") from error
    except ValueError as error:
        raise UsageError(f"{variable} begins with {_PREFIX}, but what follows is no base64: {error}") from error
    if not key:
        raise UsageError(f"the webhook is not called unsigned: nothing follows {_PREFIX} in {variable}")
    return key


def secret_problem(variable: str) -> str | None:
    """Why nothing could be signed now, or None."""
    try:
        signing_key(variable)
    except UsageError as error:
        return str(error)
    return None


def _payload(store: LoopStore, delivery: Delivery) -> dict[str, Any]:
    """What is told: which text waits, why, and the counts. Plain values; nothing of a sample or an output."""
    proposal, number = store.proposal(delivery.proposal_id), delivery.revision
    revision = store.revision(proposal.id, number)
    reports = store.gate_reports(proposal.id, number)
    data = {
        "proposal_id": proposal.id,
        "revision": number,
        "kind": proposal.kind,
        "prompt": proposal.prompt_name,
        "task": proposal.task_name,
        "text_hash": revision.text_hash,
        "verdict": reports["gate"].verdict if "gate" in reports else None,
        "evidence": {split: report.summary for split, report in reports.items()},
        "changes": [each.model_dump(include={"op", "rule_id", "text"}) for each in revision.operations],
        "rationale": revision.rationale,
        "expires_at": proposal.expires_at.isoformat() if proposal.expires_at else None,
    }
    return {"type": "proposal.pending", "timestamp": delivery.created_at.isoformat(), "data": data}


def _deliver(store: LoopStore, delivery: Delivery, timeout_s: float) -> Delivery | None:
    """One try, claimed before it is made; without a secret, or where nothing waits any more, none is made."""
    proposal = store.proposal(delivery.proposal_id)
    if not proposal.decidable or proposal.revision != delivery.revision:
        now = f"revision {proposal.revision}, {proposal.state}"
        return store.note_delivery(delivery, error=f"not sent: {proposal.id} is at {now} by now", final=True)
    try:
        key = _key(store, proposal)
    except UsageError as error:
        return store.note_delivery(delivery, error=str(error))
    pause = _PAUSES_S[delivery.num_tries] if delivery.num_tries < len(_PAUSES_S) else None
    claimed = store.claim_delivery(delivery, again_after=None if pause is None else timedelta(seconds=pause))
    if claimed is None:
        return None
    body = json.dumps(_payload(store, claimed), ensure_ascii=False).encode()
    problem, final = _post(claimed, key, body, timeout_s)
    return store.note_delivery(claimed, error=problem, final=final)


def _key(store: LoopStore, proposal: Proposal) -> bytes:
    webhook = store.task(proposal.task_hash).approval.webhook
    if webhook is None:
        raise UsageError(f"the task of {proposal.id} names no webhook")
    return signing_key(webhook.secret_env)


def _post(delivery: Delivery, key: bytes, body: bytes, timeout_s: float) -> tuple[str | None, bool]:
    """What went wrong (None where nothing did), and whether another try is of no use. The answer's body is not read."""
    import httpx

    message_id, timestamp = f"{delivery.proposal_id}-{delivery.revision}", int(utc_now().timestamp())
    headers = {
        "content-type": "application/json",
        "user-agent": "loopeng",
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": sign(key, message_id, timestamp, body),
    }
    try:
        with (
            httpx.Client(timeout=timeout_s, follow_redirects=False) as client,
            client.stream("POST", delivery.url, content=body, headers=headers) as response,
        ):
            return _judged(response.status_code)
    except httpx.InvalidURL as error:
        return f"approval.webhook.url cannot be used: {error}", True
    except (httpx.HTTPError, OSError, ValueError) as error:
        return f"no answer: {type(error).__name__}: {error}", False


def _judged(status: int) -> tuple[str | None, bool]:
    if 200 <= status < 300:
        return None, True
    if 300 <= status < 400:
        return f"answered {status}, and redirects are not followed: name the final address", True
    return f"answered {status}", 400 <= status < 500 and status not in _TRY_AGAIN
