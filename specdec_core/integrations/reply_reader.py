"""Reads a reply that is an answer or tool calls, while it comes in.

The form is one JSON object, ``{"final_answer": ...}`` or ``{"tool_calls": [{"name": ..., "arguments": {...}}, ...]}``.
An engine without grammars may write something else: a text of no such form is the answer as it stands.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["CallPiece", "ReadCall", "ReplyReader"]

_HEADS = ('{"final_answer":', '{"tool_calls":[')
_ANSWER = re.compile(r'\s*\{\s*"final_answer"\s*:\s*(?=\S)')
_CALLS = re.compile(r'\s*\{\s*"tool_calls"\s*:\s*\[')
_CALL = re.compile(r'\s*,?\s*\{\s*"name"\s*:\s*"([^"\\]*)"\s*,\s*"arguments"\s*:\s*')
_LOW = r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_HIGH = r"\\u[dD][89abAB][0-9a-fA-F]{2}"
_IN_STRING = re.compile(rf'(?:[^"\\]|\\["\\/bfnrt]|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{{4}}|{_HIGH}{_LOW})*')
_ESCAPE_BEGUN = re.compile(rf"(?:{_HIGH})?\\(?:u[0-9a-fA-F]{{0,3}})?|{_HIGH}")
_BROKEN_ESCAPE = re.compile(r"\\u[0-9a-fA-F]{4}|\\")


@dataclass(frozen=True, slots=True)
class CallPiece:
    """A piece of call number ``index``: first its name, whole where it came so far, then its arguments as they grow."""

    index: int
    args: str = ""
    name: str | None = None
    begins: bool = False


@dataclass(slots=True)
class ReadCall:
    """One call. ``args`` is the text of its arguments; ``name`` is None where the reply ended inside it."""

    name: str | None
    args: str = ""

    def arguments(self) -> dict[str, Any] | None:
        """None where the text is not, or not yet, a JSON object. Nothing is mended: half an order is not an order."""
        if self.name is None:
            return None
        try:
            value = json.loads(self.args, strict=False)
        except ValueError:
            return None
        return value if isinstance(value, dict) else None


class ReplyReader:
    """Feed it the text in any pieces, then finish. ``text`` and ``calls`` hold what was read, however it was cut.

    >>> reader = ReplyReader()
    >>> reader.feed('{"final_answer": "tw'), reader.feed('o\\\\nlines"}'), reader.finish()
    (['tw'], ['o\\nlines'], [])
    """

    def __init__(self) -> None:
        self.text = ""
        self.calls: list[ReadCall] = []
        self._rest = ""
        self._pieces: list[str | CallPiece] = []
        self._read: Callable[[], bool] = self._head  # reads what it can of the rest; true where it is worth going on
        self._value = _Value()

    def feed(self, text: str) -> list[str | CallPiece]:
        """What the reply says more now: pieces of the answer, or of calls."""
        self._rest += text
        while self._read():
            pass
        pieces, self._pieces = self._pieces, []
        return pieces

    def finish(self) -> list[str | CallPiece]:
        """The reply is over, wherever it stands: what was held back comes out."""
        if self._read == self._head:
            self._take_text(self._rest)
        elif self._read == self._arguments:
            self._end_call()
        elif self._read == self._between_calls and (begun := self._rest.lstrip(" ,\n\t\r")):
            self._value = _Value()
            self._value.take(begun)
            self._begin_call(None)
            self._take_args(begun)
            self._end_call()
        self._rest, self._read = "", self._after
        pieces, self._pieces = self._pieces, []
        return pieces

    def _head(self) -> bool:
        for pattern, read in ((_ANSWER, self._answer), (_CALLS, self._between_calls)):
            if found := pattern.match(self._rest):
                self._rest, self._read = self._rest[found.end() :], read
                return True
        compact = re.sub(r"\s+", "", self._rest)
        if any(head.startswith(compact) for head in _HEADS):
            return False
        self._read = self._plain
        return True

    def _plain(self) -> bool:
        self._take_text(self._rest)
        self._rest = ""
        return False

    def _answer(self) -> bool:
        self._read = self._string if self._rest.startswith('"') else self._json
        self._rest = self._rest.removeprefix('"')
        self._value = _Value()
        return True

    def _string(self) -> bool:
        found = _IN_STRING.match(self._rest)
        assert found is not None, "it may be empty"
        self._take_text(json.loads(f'"{found[0]}"', strict=False))
        self._rest = self._rest[found.end() :]
        if self._rest.startswith('"'):
            self._read = self._after
            return True
        if not self._rest or _ESCAPE_BEGUN.fullmatch(self._rest):
            return False
        broken = _BROKEN_ESCAPE.match(self._rest)
        assert broken is not None, "only a backslash stops the string"
        self._take_text("\ufffd")
        self._rest = self._rest[broken.end() :]
        return True

    def _json(self) -> bool:
        end = self._value.take(self._rest)
        self._take_text(self._rest[:end])
        self._rest = "" if end is None else self._rest[end:]
        self._read = self._json if end is None else self._after
        return False

    def _between_calls(self) -> bool:
        if re.match(r"\s*\]", self._rest):
            self._read = self._after
            return True
        found = _CALL.match(self._rest)
        if found is None:
            return False
        self._begin_call(found[1])
        self._rest, self._read, self._value = self._rest[found.end() :], self._arguments, _Value()
        return True

    def _arguments(self) -> bool:
        if not self.calls[-1].args:
            self._rest = self._rest.lstrip()
        end = self._value.take(self._rest)
        self._take_args(self._rest[:end])
        if end is None:
            self._rest = ""
            return False
        self._end_call()
        self._rest, self._read = self._rest[end:], self._after_call
        return True

    def _after_call(self) -> bool:
        _, closed, rest = self._rest.partition("}")
        if closed:
            self._rest, self._read = rest, self._between_calls
        return bool(closed)

    def _after(self) -> bool:
        self._rest = ""
        return False

    def _take_text(self, text: str) -> None:
        if text:
            self.text += text
            self._pieces.append(text)

    def _begin_call(self, name: str | None) -> None:
        self._pieces.append(CallPiece(len(self.calls), "", name, begins=True))
        self.calls.append(ReadCall(name))

    def _take_args(self, text: str) -> None:
        if text:
            self.calls[-1].args += text
            self._pieces.append(CallPiece(len(self.calls) - 1, text))

    def _end_call(self) -> None:
        """Readers of streams mend JSON that is cut (LangChain does); a piece that cannot be mended forbids it."""
        if self.calls[-1].arguments() is None:
            self._pieces.append(CallPiece(len(self.calls) - 1, self._value.spoiling()))


class _Value:
    """Finds where one JSON value ends, in pieces: before the first comma or bracket that is not its own."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = self._escaped = False

    def take(self, text: str) -> int | None:
        """The index of the first character after the value; None where it goes on."""
        for index, char in enumerate(text):
            if self._in_string:
                self._in_string = self._escaped or char != '"'
                self._escaped = char == "\\" and not self._escaped
            elif char == '"':
                self._in_string = True
            elif char in "{[":
                self._depth += 1
            elif char in "}],":
                if self._depth == 0:
                    return index
                self._depth -= char != ","
        return None

    def spoiling(self) -> str:
        """What makes the value wrong JSON for good: the outermost bracket is a brace, and never closed by these."""
        return "\\" * self._escaped + '"' * self._in_string + "]" * max(self._depth, 1)
