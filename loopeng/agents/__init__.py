"""What one attempt runs: one engine call, or the user's own function, graph or program."""

from __future__ import annotations

from loopeng.agents.building import as_agent, build_agent, check_agent, section_of
from loopeng.agents.command import CommandAgent
from loopeng.agents.llm import LlmAgent
from loopeng.agents.python import PythonAgent

__all__ = ["CommandAgent", "LlmAgent", "PythonAgent", "as_agent", "build_agent", "check_agent", "section_of"]
