"""The default agent: the conversation goes to the engine, its answer is the attempt."""

from __future__ import annotations

from dataclasses import dataclass

from loopeng.ports import AgentContext, AgentResult

__all__ = ["LlmAgent"]


@dataclass(frozen=True)
class LlmAgent:
    """One engine call. No side effects, so the gate may run it again."""

    reference: str | None = "llm"
    replayable: bool = True

    def __call__(self, context: AgentContext) -> AgentResult:
        """Raises EngineError where the engine breaks."""
        reply = context.engine.generate(context.messages)
        return AgentResult(
            text=reply.text,
            usage=reply.usage,
            token_ids=reply.token_ids,
            finish_reason=reply.finish_reason,
            fingerprint=reply.fingerprint,
        )
