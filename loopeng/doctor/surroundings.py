"""What the environment says: the webhook's signing secret, and what the terminal can show."""

from __future__ import annotations

import os
from collections.abc import Iterator

from loopeng.doctor.findings import Finding
from loopeng.improve.webhook import secret_problem
from loopeng.schema.task import WebhookSpec

__all__ = ["examine_surroundings"]

_SHOWN = "é→…中"  # of what reports and models' answers hold


def examine_surroundings(encoding: str | None) -> Iterator[Finding]:
    """``encoding`` is that of the terminal, or of the file that output goes to."""
    yield _secret(str(WebhookSpec.model_fields["secret_env"].default))
    yield _terminal(encoding or "ascii")


def _secret(variable: str) -> Finding:
    if variable not in os.environ:
        return Finding("webhook", "ok", f"{variable} is not set; only approval.webhook needs it")
    problem = secret_problem(variable)
    if problem is not None:
        return Finding("webhook", "warn", problem, "set it to the receiver's secret, or unset it")
    return Finding("webhook", "ok", f"{variable} is set and can sign")


def _terminal(encoding: str) -> Finding:
    try:
        _SHOWN.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return Finding("terminal", "warn", f"output is {encoding}: answers may not be printable", "set PYTHONUTF8=1")
    return Finding("terminal", "ok", f"output is {encoding}")
