"""A loop around a loop: generate, evaluate, retry, and propose prompt changes that a person approves.

Importing this package loads nothing heavy: each name below is fetched from its module on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loopeng.api import Loop
    from loopeng.engines.specdec_chat import chat_model
    from loopeng.errors import LoopError
    from loopeng.evaluators import evaluator
    from loopeng.ports import AgentContext, AgentResult, TextReply, TextRequest
    from loopeng.schema import Attempt, EvalResult, Sample, Task
    from loopeng.settings import LiveSettings
    from loopeng.task_file import load_task

__all__ = [
    "AgentContext",
    "AgentResult",
    "Attempt",
    "EvalResult",
    "LiveSettings",
    "Loop",
    "LoopError",
    "Sample",
    "Task",
    "TextReply",
    "TextRequest",
    "__version__",
    "chat_model",
    "evaluator",
    "load_task",
]

_MODULES = {
    "AgentContext": "loopeng.ports",
    "AgentResult": "loopeng.ports",
    "Attempt": "loopeng.schema",
    "EvalResult": "loopeng.schema",
    "LiveSettings": "loopeng.settings",
    "Loop": "loopeng.api",
    "LoopError": "loopeng.errors",
    "Sample": "loopeng.schema",
    "Task": "loopeng.schema",
    "TextReply": "loopeng.ports",
    "TextRequest": "loopeng.ports",
    "chat_model": "loopeng.engines.specdec_chat",
    "evaluator": "loopeng.evaluators",
    "load_task": "loopeng.task_file",
}

__version__: str


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("loopeng")
    elif name in _MODULES:
        value = getattr(import_module(_MODULES[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
