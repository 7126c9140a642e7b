"""Messages over a file descriptor: eight hexadecimal digits of length, then that many ASCII characters.

Loaded into the candidate's interpreter too; imports nothing heavy.
"""

from __future__ import annotations

import os
import select
import time

from loopeng.sandbox.literals import MAX_CHARS

__all__ = ["ClosedError", "receive", "send"]

_HEADER = 8
_ROOM = MAX_CHARS + 10_000  # a value and what stands around it
_DIGITS = frozenset(b"0123456789abcdef")


class ClosedError(Exception):
    """The other side is gone."""


def send(descriptor: int, text: str) -> None:
    """Write one message. Raises ClosedError."""
    data = b"%08x" % len(text) + text.encode("ascii")
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except OSError as error:
        raise ClosedError(str(error)) from None


def receive(descriptor: int, deadline: float | None = None) -> str:
    """Read one message. Raises TimeoutError at ``deadline`` (time.monotonic), ClosedError, ValueError for junk."""
    header = _exactly(descriptor, _HEADER, deadline)
    if not _DIGITS.issuperset(header) or int(header, 16) > _ROOM:
        raise ValueError("not a message")
    body = _exactly(descriptor, int(header, 16), deadline)
    try:
        return body.decode("ascii")
    except UnicodeDecodeError:
        raise ValueError("not a message") from None


def _exactly(descriptor: int, size: int, deadline: float | None) -> bytes:
    data = bytearray()
    while len(data) < size:
        if deadline is not None:
            _wait(descriptor, deadline)
        try:
            piece = os.read(descriptor, size - len(data))
        except OSError as error:
            raise ClosedError(str(error)) from None
        if not piece:
            raise ClosedError("closed")
        data += piece
    return bytes(data)


def _wait(descriptor: int, deadline: float) -> None:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    left = deadline - time.monotonic()
    if left <= 0 or not poll.poll(left * 1000):
        raise TimeoutError
