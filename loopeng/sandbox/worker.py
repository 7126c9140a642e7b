"""The candidate's process: holds one answer's code, calls its functions, and sends back what they return.

It never sees a test. Whatever this process says counts as nothing but the value of the call at hand; the code in it
may do to this interpreter whatever it likes.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from loopeng.sandbox.assembling import assemble
from loopeng.sandbox.channel import receive, send
from loopeng.sandbox.confinement import confine
from loopeng.sandbox.literals import PlainValueError, TooLargeError, decode, encode

__all__ = ["main"]

_MAX_MESSAGE = 500


def main() -> None:
    """Take the job from standard input, give up all rights, then answer one request after the other."""
    reads, writes = _private_channel()
    job = decode(receive(reads))
    os.chdir(job["folder"])
    held = confine(job["memory_bytes"], job["cpu_s"])
    os.dup2(1, 2)
    send(writes, encode(("ready", held)))
    namespace = _namespace()
    while True:
        token, action, *request = decode(receive(reads))
        reply = _load(namespace, job, *request) if action == "load" else _call(namespace, *request)
        send(writes, f"({token!r}, {reply})")


def _private_channel() -> tuple[int, int]:
    """The channel away from the standard descriptors, which point to nothing from here on; errors go on for now."""
    reads, writes = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(nothing, descriptor)
    os.close(nothing)
    return reads, writes


def _namespace() -> dict[str, Any]:
    """Of a module that can be found by its name, as dataclasses do."""
    module = type(sys)("candidate")
    sys.modules["candidate"] = module
    return module.__dict__


def _load(namespace: dict[str, Any], job: dict[str, Any], names: list[str]) -> str:
    try:
        programs = assemble(job["code"], job["prompt"], names[0])
        compiled = [compile(program, "<answer>", "exec", dont_inherit=True) for program in programs]
    except SyntaxError as error:
        return _reply("syntax", f"line {error.lineno}: {error.msg}"[:_MAX_MESSAGE])
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        return _reply("syntax", type(error).__name__)
    try:
        if any("random" in program for program in programs):
            import random

            random.seed(0)
        for each in compiled:
            exec(each, namespace)  # noqa: S102  what the sandbox is for
    except BaseException as error:  # noqa: BLE001  generated code may raise anything
        return _raised(error)
    missing = [name for name in names if not callable(namespace.get(name))]
    return _reply("missing", missing[0]) if missing else _reply("loaded")


def _call(namespace: dict[str, Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    try:
        return f"'value', {encode(namespace[name](*args, **kwargs))}"
    except PlainValueError as error:
        return _reply("not plain", str(error)[:_MAX_MESSAGE])
    except TooLargeError:
        return _reply("too large")
    except BaseException as error:  # noqa: BLE001  generated code may raise anything
        return _raised(error)


def _reply(*words: Any) -> str:
    return encode(words)[1:-1]


def _raised(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return _reply("memory")
    try:
        message = str(error)[:_MAX_MESSAGE]
    except BaseException:  # noqa: BLE001
        message = ""
    kinds = [kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins"]
    return _reply("raised", kinds, message if type(message) is str else "")
