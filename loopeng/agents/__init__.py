"""What one attempt runs: one engine call, or the user's own function."""

from __future__ import annotations

from loopeng.agents.building import as_agent, build_agent
from loopeng.agents.llm import LlmAgent
from loopeng.agents.python import PythonAgent

__all__ = ["LlmAgent", "PythonAgent", "as_agent", "build_agent"]
