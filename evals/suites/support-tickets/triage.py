"""What a good triage is, one function per key of the answer; ``json`` looks at the form, these at what it says.

The conventions, which the prompt leaves unsaid and a rule can teach:

- category: what the ticket is about. Whoever asks for money back writes to billing, and trouble with logging in is the
  account's, whatever else goes wrong with it.
- urgency: high where the customer cannot work, was charged wrongly, or names a deadline today; low where nothing is
  wrong and the customer only asks or says thanks; else medium.
- order: the order number, digits only, as a text; null where the ticket names none.

The functions read an answer leniently (a code fence around it is the form's business), so each judges its own key.
"""

from __future__ import annotations

import json
import re
from typing import Any

from loopeng.schema import Attempt, Sample

CATEGORIES = ("billing", "shipping", "technical", "account", "other")
URGENCIES = ("low", "medium", "high")

_OBJECT = "Answer with one valid JSON object."
REMEDIES = {
    "category.unreadable": _OBJECT,
    "category.unknown": 'Write "category" in lower case, exactly as one of the five names.',
    "category.wrong": (
        'Use "billing" for payments, invoices and refunds, "shipping" for parcels and delivery, "technical" for the '
        'website and the app, "account" for login and profile, "other" for the rest.'
    ),
    "urgency.unreadable": _OBJECT,
    "urgency.unknown": 'Write "urgency" in lower case, exactly as one of the three names.',
    "urgency.too_low": (
        'The "urgency" is "high" when the customer cannot work, was charged wrongly, or names a deadline today.'
    ),
    "urgency.too_high": (
        'The "urgency" is "high" only when the customer cannot work, was charged wrongly or has a deadline today, and '
        '"low" when the customer only asks a question or says thanks.'
    ),
    "order.unreadable": _OBJECT,
    "order.missing": 'Copy the order number from the ticket into "order".',
    "order.invented": 'The value of "order" is null when the ticket names no order number.',
    "order.form": 'Write "order" as a text of digits only, without "#" or other words.',
}


def right_category(sample: Sample, attempt: Attempt) -> dict[str, Any]:
    """The category is the ticket's, from the closed set."""
    answer = _read(attempt.text)
    if answer is None:
        return _failed("category.unreadable", "no JSON object to read a category from")
    given, wanted = answer.get("category"), sample.target["category"]
    if given not in CATEGORIES:
        return _failed("category.unknown", "the category is none of the five", given, wanted)
    if given != wanted:
        return _failed("category.wrong", "another category", given, wanted, 0.2)
    return {"passed": True}


def right_urgency(sample: Sample, attempt: Attempt) -> dict[str, Any]:
    """The urgency is the ticket's. One step off scores half."""
    answer = _read(attempt.text)
    if answer is None:
        return _failed("urgency.unreadable", "no JSON object to read an urgency from")
    given, wanted = answer.get("urgency"), sample.target["urgency"]
    if given not in URGENCIES:
        return _failed("urgency.unknown", "the urgency is none of the three", given, wanted)
    distance = URGENCIES.index(given) - URGENCIES.index(wanted)
    if distance:
        score = 0.5 if abs(distance) == 1 else 0.1
        category, reason = ("too_low", "lower") if distance < 0 else ("too_high", "higher")
        return _failed(f"urgency.{category}", f"{reason} than the ticket asks for", given, wanted, score)
    return {"passed": True}


def right_order(sample: Sample, attempt: Attempt) -> dict[str, Any]:
    """The order number, or null. A number instead of a text is accepted: JSON writers differ."""
    answer = _read(attempt.text)
    if answer is None:
        return _failed("order.unreadable", "no JSON object to read an order number from")
    given, wanted = answer.get("order"), sample.target["order"]
    if given is wanted or (wanted is not None and not isinstance(given, bool) and str(given) == wanted):
        return {"passed": True}
    if wanted is None:
        return _failed("order.invented", "an order number, or words, where the ticket names none", given, wanted)
    if isinstance(given, str) and wanted in re.findall(r"\d+", given):
        return _failed("order.form", "the order number amid other characters", given, wanted, 0.5)
    return _failed("order.missing", "not the ticket's order number", given, wanted)


def _failed(category: str, reason: str, given: Any = None, wanted: Any = None, score: float = 0.0) -> dict[str, Any]:
    """The reason is the same for all tickets, so that one mistake is one pattern; the values are in the metadata."""
    return {
        "passed": False,
        "score": score,
        "category": category,
        "remedy": REMEDIES[category],
        "reason": reason,
        "metadata": {"given": given, "wanted": wanted},
    }


def _read(text: str) -> dict[str, Any] | None:
    """The first JSON object in the answer."""
    decoder = json.JSONDecoder()
    for start in [match.start() for match in re.finditer(r"\{", text)][:5]:
        try:
            value, _ = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        return value if isinstance(value, dict) else None
    return None
