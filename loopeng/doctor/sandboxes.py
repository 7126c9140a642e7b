"""Where generated code could run on this machine: each tier of the sandbox is tried."""

from __future__ import annotations

from loopeng.doctor.findings import Finding
from loopeng.sandbox import tier_states

__all__ = ["examine_sandbox"]

_LAST_RESORT = "subprocess"
_REMEDY = "for tests of generated code: install bubblewrap, or start docker or podman"


def examine_sandbox() -> Finding:
    """Only evaluators that run code need one, so that none is no more than a warning."""
    states = tier_states()
    working = [name for name, problem in states.items() if problem is None]
    problems = "; ".join(f"{name}: {problem}" for name, problem in states.items() if problem is not None)
    text = f"works: {', '.join(working) or 'none'}" + (f" ({problems})" if problems else "")
    if any(name != _LAST_RESORT for name in working):
        return Finding("sandbox", "ok", text)
    consent = "; it runs the code as you and needs allow_unsandboxed: true" if working else ""
    return Finding("sandbox", "warn", f"{text}{consent}", _REMEDY)
