"""The nouns of the loop, all frozen.

**task** one task.yaml · **sample** one input · **run** one pass over samples (kind: suite, rescore, live, reproduce,
reflect, screen, gate, holdout) · **attempt** one generation for a sample · **evaluator** gives an **EvalResult** ·
**failure pattern** a mistake that comes back, known by its fingerprint · **occurrence** one sample of one run that
showed it · **rule** one learned instruction · **prompt version** immutable template plus rules · **head** the version
in use · **proposal** a change with **revisions** · **gate report** its paired evidence · **decision** a person's word
· **commit** moves the head to the new version · **rollback** moves it back · **watch** looks whether the failure stays
away · **suggestion** one answer of a reflector · **look** one use of the gate's samples, at an alpha of its own ·
**delivery** one call of a webhook · **anchor** an item whose verdict is known, to judge a judge by.
"""

from loopeng.schema.attempts import Attempt, EvalResult, Message, Run, SampleResult, Usage
from loopeng.schema.base import FaultSide, Noun, Split, content_hash, utc_now
from loopeng.schema.evidence import ArmCount, GateReport, GateTest, Look, PairedCount
from loopeng.schema.improvement import (
    DECIDABLE_STATES,
    OPEN_STATES,
    Decision,
    Delivery,
    FailurePattern,
    GuardFinding,
    PromptVersion,
    Proposal,
    Revision,
    Rule,
    RuleOperation,
    Suggestion,
    Watch,
    WatchCheck,
)
from loopeng.schema.judging import AnchorReport, CriterionAgreement, JudgeUsage
from loopeng.schema.task import EvaluatorSpec, Sample, Task, TaskFile

__all__ = [
    "DECIDABLE_STATES",
    "OPEN_STATES",
    "AnchorReport",
    "ArmCount",
    "Attempt",
    "CriterionAgreement",
    "Decision",
    "Delivery",
    "EvalResult",
    "EvaluatorSpec",
    "FailurePattern",
    "FaultSide",
    "GateReport",
    "GateTest",
    "GuardFinding",
    "JudgeUsage",
    "Look",
    "Message",
    "Noun",
    "PairedCount",
    "PromptVersion",
    "Proposal",
    "Revision",
    "Rule",
    "RuleOperation",
    "Run",
    "Sample",
    "SampleResult",
    "Split",
    "Suggestion",
    "Task",
    "TaskFile",
    "Usage",
    "Watch",
    "WatchCheck",
    "content_hash",
    "utc_now",
]
