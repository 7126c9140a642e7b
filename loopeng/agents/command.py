"""A program as agent: the attempt goes in as JSON on standard input, the answer comes out on standard output."""

from __future__ import annotations

import json
import os
import shlex
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import Any, Literal

from loopeng.agents.programs import Ended, ProgramLimits, run_program
from loopeng.errors import EngineError, TaskError
from loopeng.ports import AgentContext, AgentResult, Endpoint
from loopeng.schema import Usage
from loopeng.validation import did_you_mean, validated

__all__ = ["CommandAgent", "check_program"]

_ALWAYS = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ")
_LOCAL = "127.0.0.1,localhost"
_RESULT_KEYS = frozenset({"text", "trajectory", "usage"})


@dataclass(frozen=True)
class CommandAgent:
    """Runs ``command`` in ``folder``, once for each attempt.

    Standard input holds one JSON object: ``instructions``, ``input``, ``messages``, ``feedback``, ``earlier_outputs``,
    ``attempt_index``, ``seed``, ``temperature``, ``budget`` (see AgentContext), and ``endpoint``: the attempt's engine
    for programs that speak the OpenAI protocol, as ``base_url``, ``api_key`` and ``model``, or null where it has none.
    The environment names the same: OPENAI_BASE_URL, OPENAI_API_KEY and LOOPENG_MODEL.

    Standard output, which is UTF-8, is the answer, less the line breaks at its end. Where the whole of it is a JSON
    object with a string under ``text``, and no keys but ``text``, ``trajectory`` and ``usage``, it is read as those. An
    exit status other than 0 is an error, which quotes the end of standard error.
    """

    command: tuple[str, ...]
    folder: Path
    limits: ProgramLimits
    env: Literal["all"] | Sequence[str] = "all"
    replayable: bool = False

    @property
    def reference(self) -> str:
        """What runs name it by."""
        return f"command: {shlex.join(self.command)}"

    def __call__(self, context: AgentContext) -> AgentResult:
        """Raises AgentLimitError at a limit, EngineError where the program cannot be run, fails, or says no text."""
        with context.engine.endpoint() as endpoint:
            ended = run_program(
                self.command,
                json.dumps(_document(context, endpoint), default=str).encode(),
                folder=self.folder,
                environment=_environment(self.env, endpoint),
                limits=self.limits,
            )
        if ended.status:
            raise EngineError(_failure(ended))
        return _result(_decoded(ended.output))


def check_program(command: Sequence[str], folder: Path) -> None:
    """Raises TaskError where the program is not there or cannot be run; a path is looked for in ``folder``."""
    program = command[0]
    if os.sep not in program:
        if which(program) is None:
            hint = f"write ./{program} for the one beside the task file" if (folder / program).is_file() else None
            raise TaskError(f"there is no program {program!r} on PATH", suggestion=hint)
        return
    path = folder / program
    if not path.is_file():
        near = [f"./{each.name}" for each in folder.iterdir() if each.is_file()] if folder.is_dir() else []
        raise TaskError(f"there is no program {str(path)!r}", suggestion=did_you_mean(program, near))
    if not os.access(path, os.X_OK):
        raise TaskError(
            f"{str(path)!r} may not be run", suggestion=f"chmod +x {shlex.quote(program)}, or name its interpreter"
        )


def _document(context: AgentContext, endpoint: Endpoint | None) -> dict[str, Any]:
    return {
        "instructions": context.instructions,
        "input": dict(context.input),
        "messages": [message.model_dump() for message in context.messages],
        "feedback": context.feedback,
        "earlier_outputs": context.earlier_outputs,
        "attempt_index": context.attempt_index,
        "seed": context.seed,
        "temperature": context.temperature,
        "budget": vars(context.budget),
        "endpoint": None
        if endpoint is None
        else {"base_url": endpoint.url, "api_key": endpoint.token, "model": endpoint.model},
    }


def _environment(names: Literal["all"] | Sequence[str], endpoint: Endpoint | None) -> Mapping[str, str]:
    """What the program sees. A proxy is no way to this machine's own address."""
    seen = os.environ.keys() if names == "all" else os.environ.keys() & {*_ALWAYS, *names}
    environment = {name: os.environ[name] for name in seen}
    if endpoint is not None:
        environment |= {
            "OPENAI_BASE_URL": endpoint.url,
            "OPENAI_API_KEY": endpoint.token,
            "LOOPENG_MODEL": endpoint.model,
        }
        for name in ("NO_PROXY", "no_proxy"):
            environment[name] = ",".join(filter(None, [environment.get(name), _LOCAL]))
    return environment


def _failure(ended: Ended) -> str:
    complaints = ended.complaints.decode("utf-8", "replace").strip()
    how = f"exited with {ended.status}"
    if ended.status < 0:
        how = f"was killed by signal {-ended.status}"
        with suppress(ValueError):
            how = f"was killed by {signal.Signals(-ended.status).name}"
    return f"the command {how}: {complaints}" if complaints else f"the command {how} and wrote no reason"


def _decoded(output: bytes) -> str:
    try:
        return output.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise EngineError(
            f"the command's output is not UTF-8: byte {error.object[error.start]:#04x} at place {error.start}"
        ) from None


def _result(text: str) -> AgentResult:
    found = _object_in(text)
    if found is None or not isinstance(found.get("text"), str) or found.keys() - _RESULT_KEYS:
        return AgentResult(text=text)
    usage = validated(Usage, {} if found.get("usage") is None else found["usage"])
    if isinstance(usage, list):
        hint = f" ({usage[0].suggestion})" if usage[0].suggestion else ""
        raise EngineError(f"the command's usage cannot be read: {usage[0].message}{hint}")
    return AgentResult(text=found["text"], trajectory=found.get("trajectory"), usage=usage)


def _object_in(text: str) -> dict[str, Any] | None:
    if not text.lstrip().startswith("{"):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
