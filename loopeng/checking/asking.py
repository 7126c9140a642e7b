"""A few words from the engine: does it start, answer, and what does it say of itself?"""

from __future__ import annotations

from loopeng.engines import build_engine
from loopeng.ports import EngineInfo, TextReply, TextRequest
from loopeng.schema import Message, Task

__all__ = ["ask_engine"]

_MAX_TOKENS = 8


def ask_engine(task: Task, prompt: str) -> tuple[EngineInfo, TextReply]:
    """Load the task's model, or call its server. Raises EngineError, and UsageError where its key is not set."""
    engine = build_engine(task.engine, task.folder)
    request = TextRequest.of(
        task.engine,
        messages=(Message(role="user", content=prompt),),
        temperature=task.temperature(0),
        seed=task.run.seed,
    )
    most = min(_MAX_TOKENS, task.engine.max_tokens)
    return engine.describe(), engine.generate(request.model_copy(update={"max_tokens": most}))
