"""The improvement loop: failure patterns become a proposal, a gate counts what it would change, a person decides.

LangGraph is imported only in ``graph`` and ``nodes``, when a proposal is moved.
"""

from loopeng.improve.cycle import LeaseHeldError, advance, propose
from loopeng.improve.exporting import export_on_commit
from loopeng.improve.gate import NO_EVIDENCE
from loopeng.improve.reflect import REFLECTORS, HintsReflector, build_reflector
from loopeng.improve.watching import check_watches
from loopeng.improve.working import Step, recover, work

__all__ = [
    "NO_EVIDENCE",
    "REFLECTORS",
    "HintsReflector",
    "LeaseHeldError",
    "Step",
    "advance",
    "build_reflector",
    "check_watches",
    "export_on_commit",
    "propose",
    "recover",
    "work",
]
