"""The improvement loop: failure patterns become a proposal, a gate counts what it would change, a person decides.

::

    cycle                     starts proposals and wakes them; graph and nodes are the circle they go round
    reproduction              its stations, in this order: do the failures come back?
    reflection/               what change is suggested
    guards/                   what is refused unseen
    gate/                     what it would change, counted; the hold-out too
    publishing, webhook       into the queue, or past it; who is told
    exporting                 the commit's prompt file
    watch/                    whether the failures stay away, and taking a change back
    working, submitting       what others left; rules that are there already
    unproposed, verifying     why nothing is proposed; whether the rows agree
    rules, choosing,          what they share: lists of rules, which samples are run, running attempts again,
    replaying, spending       improve.limits

LangGraph is imported only in ``graph`` and ``nodes``, when a proposal is moved.
"""

from loopeng.improve.cycle import LeaseHeldError, advance, propose
from loopeng.improve.exporting import export_on_commit
from loopeng.improve.gate.comparing import NO_EVIDENCE
from loopeng.improve.reflection.reflectors import REFLECTORS, HintsReflector, build_reflector
from loopeng.improve.watch.watching import check_watches
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
