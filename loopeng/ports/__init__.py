"""The seams: what a user may replace. Each is a Protocol of one or two methods, and an implementation ships.

::

    engines      text engines, and an engine as an agent sees it
    agents       what runs inside an attempt, and everything it may look at
    evaluation   evaluators
    reflection   what turns failures into changes of the rules
"""

from loopeng.ports.agents import Agent, AgentBudget, AgentContext, AgentResult, AgentSource, CompiledGraph
from loopeng.ports.engines import (
    BoundEngine,
    Endpoint,
    EndpointEngine,
    EngineInfo,
    GenerateFunction,
    TextEngine,
    TextReply,
    TextRequest,
)
from loopeng.ports.evaluation import AnchoredEvaluator, EvaluationContext, Evaluator, ReplyCache
from loopeng.ports.reflection import NoChange, ProposedChange, ReflectionContext, Reflector

__all__ = [
    "Agent",
    "AgentBudget",
    "AgentContext",
    "AgentResult",
    "AgentSource",
    "AnchoredEvaluator",
    "BoundEngine",
    "CompiledGraph",
    "Endpoint",
    "EndpointEngine",
    "EngineInfo",
    "EvaluationContext",
    "Evaluator",
    "GenerateFunction",
    "NoChange",
    "ProposedChange",
    "ReflectionContext",
    "Reflector",
    "ReplyCache",
    "TextEngine",
    "TextReply",
    "TextRequest",
]
