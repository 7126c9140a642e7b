"""What an application's traffic is called: for each prompt one dataset and task, ``live:<prompt>``."""

from __future__ import annotations

from typing import Literal

__all__ = ["Source", "live_name", "live_prompt", "source_of"]

Source = Literal["suite", "live"]
"""The kind of run that a task's failures are seen in."""

_PREFIX = "live:"


def live_name(prompt_name: str) -> str:
    """The task and dataset of a prompt's traffic.

    >>> live_name("describe"), live_prompt("live:describe"), live_prompt("describe")
    ('live:describe', 'describe', None)
    """
    return f"{_PREFIX}{prompt_name}"


def live_prompt(task_name: str) -> str | None:
    """The prompt whose traffic has this name; None for the name of any other task."""
    name = task_name.removeprefix(_PREFIX)
    return name if name and name != task_name else None


def source_of(task_name: str) -> Source:
    """Where the failures of a task come from."""
    return "live" if live_prompt(task_name) is not None else "suite"
