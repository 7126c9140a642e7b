"""The tests' process: runs the steps of a plan and reports on each. Trusted, but killed when it hangs.

Generated code is in another process and reached through its link alone: literals go out, literals come back.
"""

from __future__ import annotations

import builtins
import os
import time
from typing import Any

from loopeng.sandbox.channel import ClosedError, receive, send
from loopeng.sandbox.literals import PlainValueError, TooLargeError, decode, encode

__all__ = ["CandidateError", "main"]

_MEMORY_BYTES = 8 << 30
_SHOWN = 200  # characters of a call or value in a report
_Shapes = dict[str, tuple[type, ...]]
_LOAD_SHAPES: _Shapes = {"loaded": (), "syntax": (str,), "missing": (str,), "raised": (list, str), "memory": ()}
_CALL_SHAPES: _Shapes = {"value": (object,), "not plain": (str,), "too large": (), "raised": (list, str), "memory": ()}


class CandidateError(Exception):
    """The candidate raised something of its own that is no built-in exception."""


class _Stopped(BaseException):
    """The candidate cannot be asked any more, or gave no value; passes through ``except Exception`` of a test."""


class _BrokenTest(BaseException):
    """A test asks for what cannot be: its own mistake."""


class _Link:
    """The way to the candidate. Once ``broken`` says why, nothing more is asked of it."""

    def __init__(self, descriptor: int, timeout_s: float) -> None:
        self.descriptor, self.timeout_s = descriptor, timeout_s
        self.broken: str | None = None
        self.num_calls = 0
        self.begin()

    def begin(self) -> None:
        """A new step: its clock starts."""
        self.deadline = time.monotonic() + self.timeout_s
        self.outcome: str | None = None  # of the step's call that gave no value
        self.raised: BaseException | None = None
        self.error_type = self.called = self.got = ""

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The value the candidate's function returns, or its exception as the built-in one nearest to it."""
        try:
            request = encode((name, args, kwargs))
        except (PlainValueError, TooLargeError) as error:
            raise _BrokenTest(f"the tests call {name} with what is no plain value: {error}") from None
        self.num_calls += 1
        self.called = _shown_call(name, args, kwargs)
        self.got = ""
        outcome, *rest = self.ask(_CALL_SHAPES, f"'call', {request[1:-1]}")
        if outcome == "value":
            self.got = _shown(rest[0])
            return rest[0]
        if outcome == "raised":
            self.error_type = _built_in_name(rest[0])
            self.raised = _nearest(rest[0])(rest[1])
            raise self.raised
        self.outcome = outcome
        raise _Stopped

    def ask(self, shapes: _Shapes, request: str) -> Any:
        """One request and its reply, which must carry the request's own token and be of one of the shapes."""
        if self.broken is None:
            token = os.urandom(16).hex()
            try:
                send(self.descriptor, f"({token!r}, {request})")
                reply = decode(receive(self.descriptor, self.deadline))
                if type(reply) is tuple and reply[:1] == (token,) and _fits(reply[1:], shapes):
                    return reply[1:]
                self.broken = "protocol"
            except TimeoutError:
                self.broken = "timeout"
            except ClosedError:
                self.broken = "exit"
            except (ValueError, TypeError):
                self.broken = "protocol"
        self.outcome = self.broken
        raise _Stopped


def _fits(reply: tuple[Any, ...], shapes: _Shapes) -> bool:
    if not reply or type(reply[0]) is not str or reply[0] not in shapes:
        return False
    shape, rest = shapes[reply[0]], reply[1:]
    return len(rest) == len(shape) and all(map(isinstance, rest, shape))


_MANY_ARGUMENTS = (UnicodeDecodeError, UnicodeEncodeError, UnicodeTranslateError, BaseExceptionGroup, ExceptionGroup)


def _nearest(kinds: list[Any]) -> type[Exception]:
    for found in _built_in(kinds):
        if issubclass(found, Exception) and found not in (Exception, UnicodeError):
            return found if found not in _MANY_ARGUMENTS else ValueError
    return CandidateError


def _built_in_name(kinds: list[Any]) -> str:
    """Of the built-in exception nearest to the candidate's: a name of its own could carry what it was called with."""
    return next((found.__name__ for found in _built_in(kinds)), "Exception")


def _built_in(kinds: list[Any]) -> list[type[BaseException]]:
    found = [getattr(builtins, kind, None) for kind in kinds if type(kind) is str]
    return [each for each in found if isinstance(each, type) and issubclass(each, BaseException)]


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits
        text = encode(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _shown_call(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    named = [f"{key}={_shown(value)}" for key, value in kwargs.items()]
    return f"{name}({', '.join([*map(_shown, args), *named])})"


def main() -> None:
    """Take the job from standard input, run its steps, report each on what was standard output."""
    reads, writes = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    job = decode(receive(reads))
    _limit_memory()
    if job["hide"]:
        _hide()
    link = _Link(job["descriptor"], job["timeout_s"])
    try:
        _run(job, link, writes)
    except _BrokenTest as error:
        send(writes, encode(("problem", str(error)[:_SHOWN])))
    send(writes, encode(("done", link.num_calls)))


def _limit_memory() -> None:
    """What the candidate returned may be made into something large; then the test fails, and the machine does not."""
    import resource

    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    try:
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, hard))
    except (OSError, ValueError):
        return  # macOS knows the limit and refuses to set it


def _hide() -> None:
    """Where Landlock is missing, other processes of the same user could write into what this one holds open."""
    import ctypes

    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE


def _run(job: dict[str, Any], link: _Link, writes: int) -> None:
    names: dict[str, str] = job["names"]
    if any("random" in text for text in (job["setup"], *job["steps"])):
        import random

        random.seed(0)  # the same cases each time
    scope = _scope(job["setup"], link, names)
    send(writes, encode(("ready",)))
    link.begin()
    loaded = _load(link, list(dict.fromkeys(names.values())))
    send(writes, encode(("load", *loaded)))
    if loaded[0] == "loaded":
        for step in job["steps"]:
            send(writes, encode(("step", *_step(step, scope, link))))


def _load(link: _Link, names: list[str]) -> tuple[str, str]:
    """How it ended, and more about it: the syntax error, the missing name, the type of the exception."""
    try:
        outcome, *rest = link.ask(_LOAD_SHAPES, f"'load', {encode(names)}")
    except _Stopped:
        return (str(link.broken), "")
    if outcome == "raised":
        return (outcome, _built_in_name(rest[0]))
    return (outcome, rest[0][:_SHOWN] if rest else "")


def _scope(setup: str, link: _Link, names: dict[str, str]) -> dict[str, Any]:
    """Names the tests see: their helpers, and the candidate's functions in place of any of that name."""
    scope: dict[str, Any] = {"__name__": "tests", "CandidateError": CandidateError}
    try:
        exec(compile(setup, "<setup>", "exec", dont_inherit=True), scope)  # noqa: S102  the task's own
    except BaseException as error:  # noqa: BLE001
        raise _BrokenTest(f"the tests' setup broke: {type(error).__name__}: {error}") from None
    scope = dict(scope)  # a test that names a variable like a helper's global leaves the helper alone
    for alias, name in names.items():
        scope[alias] = _function(link, name)
    return scope


def _function(link: _Link, name: str) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        return link.call(name, args, kwargs)

    call.__name__ = name
    return call


def _step(source: str, scope: dict[str, Any], link: _Link) -> tuple[str, str, str, str]:
    """Outcome, type of the exception, the last call and what it returned, as texts."""
    link.begin()
    outcome = "passed"
    try:
        exec(compile(source, "<test>", "exec", dont_inherit=True), scope)  # noqa: S102
    except _BrokenTest:
        raise
    except BaseException as error:  # noqa: BLE001
        outcome = _failure(error, link)
    if link.outcome is not None:  # also where the test swallowed it
        outcome = link.outcome
    return (outcome, link.error_type, link.called, link.got)


def _failure(error: BaseException, link: _Link) -> str:
    if error is link.raised:
        return "raised"
    link.error_type = ""
    if isinstance(error, _Stopped):
        return str(link.outcome)
    if isinstance(error, NameError | ImportError) or link.num_calls == 0:
        raise _BrokenTest(f"a test broke: {type(error).__name__}: {error}")
    return "assert"
