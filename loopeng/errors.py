"""Errors of the loop. Each leaf changes what the caller should do; ``exit_code`` is what the command line returns.

LoopError (1)
├── TaskError (2)                 the task file or its data is wrong: file, line, what, suggestion
├── UsageError (2)                a command or call was used wrongly
│   └── NotFoundError (2)             no such run, prompt, proposal, pattern: lists what there is
├── ConflictError (7)             somebody or something was faster: look again and decide anew
│   ├── AlreadyDecidedError           the revision has a decision
│   ├── StaleProposalError            the prompt's head moved since the proposal was made
│   └── RevisionMismatchError         the text hash or revision named is not the one pending
├── BudgetStop (5)                a limit of the task was reached: saved, resume to go on
├── EngineError (4)               the engine or agent broke (infrastructure): retried, then an attempt in error
│   ├── AgentInterruptedError         the agent stopped to ask a person, and would again: not retried
│   ├── AgentLimitError               the agent went past its time or output limit, and would again: not retried
│   ├── RequestRefusedError           the engine would refuse the request again (a prompt too long): not retried
│   └── RetriesExhaustedError         the engine has retried itself, as often as it may: not retried once more
├── SandboxError (4)              generated code cannot be run safely here, or its sandbox died: not the code's fault
└── StoreError (1)                the database cannot be used (newer schema, damaged, locked for too long)
    └── WrongDatabaseError (2)        the file named is no database of loopeng, or may not be written: name another one

RecordingWarning                  an application's call was answered, but could not be recorded, or not yet
"""

from __future__ import annotations

__all__ = [
    "AgentInterruptedError",
    "AgentLimitError",
    "AlreadyDecidedError",
    "BudgetStop",
    "ConflictError",
    "EngineError",
    "LoopError",
    "NotFoundError",
    "RecordingWarning",
    "RequestRefusedError",
    "RetriesExhaustedError",
    "RevisionMismatchError",
    "SandboxError",
    "StaleProposalError",
    "StoreError",
    "TaskError",
    "UsageError",
    "WrongDatabaseError",
]


class LoopError(Exception):
    """Root of every error this package raises on purpose."""

    exit_code = 1


class TaskError(LoopError):
    """A mistake in a task file or its data, with the place it stands at."""

    exit_code = 2

    def __init__(
        self, message: str, *, file: str | None = None, line: int | None = None, suggestion: str | None = None
    ) -> None:
        self.message, self.file, self.line, self.suggestion = message, file, line, suggestion
        place = f"{file}:{line}: " if file and line else f"{file}: " if file else ""
        super().__init__(f"{place}{message}" + (f" ({suggestion})" if suggestion else ""))


class UsageError(LoopError):
    """A command or a call was used wrongly."""

    exit_code = 2


class NotFoundError(UsageError):
    """There is no such thing in this database."""


class ConflictError(LoopError):
    """The state moved between looking and acting."""

    exit_code = 7


class AlreadyDecidedError(ConflictError):
    """This revision has a decision already."""


class StaleProposalError(ConflictError):
    """The prompt's head is no longer the version the proposal was made for."""


class RevisionMismatchError(ConflictError):
    """The decision names another revision or text than the one pending."""


class BudgetStop(LoopError):
    """A limit was reached; everything so far is saved."""

    exit_code = 5


class EngineError(LoopError):
    """The engine or the agent broke; says nothing about the model's answer."""

    exit_code = 4
    is_final = False  # another try is of no use


class RequestRefusedError(EngineError):
    """The request itself cannot be served, for example a prompt longer than the context."""

    is_final = True


class RetriesExhaustedError(EngineError):
    """The engine broke, and has tried again itself."""

    is_final = True


class AgentInterruptedError(EngineError):
    """The agent stopped to ask a person; in the loop nobody can answer it."""

    is_final = True


class AgentLimitError(EngineError):
    """The agent took longer, or said more, than the task allows."""

    is_final = True


class SandboxError(LoopError):
    """The place where generated code is run is missing or broke; says nothing about the code."""

    exit_code = 4


class StoreError(LoopError):
    """The database cannot be used."""


class WrongDatabaseError(StoreError):
    """The path that was named is a folder, another program's file, or cannot be written."""

    exit_code = 2


class RecordingWarning(UserWarning):
    """An application's call was answered, but could not be recorded, or not yet. It costs no answer."""
