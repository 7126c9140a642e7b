"""Scripted models for the support tickets: they know the targets and make one kind of mistake, or none."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from evals.bench.support_tickets import TASK
from loopeng.ports import TextRequest
from loopeng.schema import Sample


@cache
def tickets() -> dict[str, dict[str, Any]]:
    lines = (TASK / "tickets.jsonl").read_text(encoding="utf-8").splitlines()
    return {row["ticket"]: row["target"] for row in map(json.loads, lines)}


def target_of(prompt: str) -> dict[str, Any]:
    (found,) = [target for ticket, target in tickets().items() if ticket in prompt]
    return found


def perfect(request: TextRequest) -> str:
    return json.dumps(target_of(request.messages[0].content))


def invents_orders(request: TextRequest) -> str:
    """What a small model does: it fills in an order number unless a rule says that there may be none."""
    prompt = request.messages[0].content
    target = target_of(prompt)
    taught = "null when the ticket names no order number" in prompt
    return json.dumps(target if taught or target["order"] else {**target, "order": "12345"})


def answer_to(sample: Sample) -> str:
    return json.dumps(sample.target)
