"""Values as text: the only thing that crosses between the tests and generated code.

Exact types alone: None, bool, int, float (inf and nan too), complex, str, bytes, list, tuple, dict, set, frozenset.
Counter, defaultdict and OrderedDict travel as dict. Anything else, subclasses included, is refused: nothing that could
bring behaviour along ever arrives. Reading makes these values and nothing else; no name is looked up, no code is run.

This file is also loaded into the candidate's interpreter, so it imports nothing but built-in modules.
"""

from __future__ import annotations

import _ast as ast
from typing import Any

__all__ = ["MAX_CHARS", "PlainValueError", "TooLargeError", "decode", "encode"]

MAX_CHARS = 1_000_000  # of one message
_MAX_DEPTH = 60
_PARSE_ONLY = 0x400  # PyCF_ONLY_AST
_SMALL = 1 << 63
_AS_DICT = ("Counter", "OrderedDict", "defaultdict")
_WORDS = {"inf": float("inf"), "nan": float("nan")}


class PlainValueError(ValueError):
    """The value is of no type that travels; the message is the type's name."""


class TooLargeError(ValueError):
    """The value is too large or nested too deeply to travel."""


def encode(value: Any, max_chars: int = MAX_CHARS) -> str:
    """A value as ASCII text on one line. Raises PlainValueError or TooLargeError.

    >>> encode({"a": (1, -0.5, float("inf")), 2: {True}})
    "{'a': (1, -0.5, inf), 2: {True}}"
    """
    parts: list[str] = []
    _write(value, parts, [max_chars], _MAX_DEPTH)
    return "".join(parts)


def _write(value: Any, parts: list[str], left: list[int], depth: int) -> None:
    if depth == 0:
        raise TooLargeError("nested too deeply")
    kind = type(value)
    if isinstance(value, dict) and (kind is dict or _travels_as_dict(kind)):
        _write_items(dict.items(value), "{", "}", parts, left, depth)
    elif kind is list:
        _write_items(value, "[", "]", parts, left, depth)
    elif kind is tuple:
        _write_items(value, "(", ",)" if len(value) == 1 else ")", parts, left, depth)
    elif kind is set or kind is frozenset:
        name = kind.__name__
        opening, closing = ("{", "}") if kind is set else (f"{name}({{", "})")
        _write_items(value, *((opening, closing) if value else (f"{name}(", ")")), parts, left, depth)
    else:
        _put(_scalar(value, kind, left[0]), parts, left)


def _write_items(items: Any, opening: str, closing: str, parts: list[str], left: list[int], depth: int) -> None:
    _put(opening, parts, left)
    pairs = opening == "{" and closing == "}" and type(items) is _DICT_ITEMS
    for index, item in enumerate(items):
        if index:
            _put(", ", parts, left)
        if pairs:
            _write(item[0], parts, left, depth - 1)
            _put(": ", parts, left)
        _write(item[1] if pairs else item, parts, left, depth - 1)
    _put(closing, parts, left)


_EMPTY: dict[Any, Any] = {}
_DICT_ITEMS: type = type(_EMPTY.items())


def _travels_as_dict(kind: type) -> bool:
    return kind.__module__ == "collections" and kind.__name__ in _AS_DICT


def _put(text: str, parts: list[str], left: list[int]) -> None:
    left[0] -= len(text)
    if left[0] < 0:
        raise TooLargeError("too large")
    parts.append(text)


def _scalar(value: Any, kind: type, room: int) -> str:
    if value is None or kind is bool or kind is float:
        return repr(value)
    if kind is int:
        if value.bit_length() > 4 * room:
            raise TooLargeError("too large")
        return repr(value) if -_SMALL < value < _SMALL else hex(value)
    if kind is complex:
        return f"complex({value.real!r}, {value.imag!r})"
    if kind is str or kind is bytes:
        if len(value) > room:
            raise TooLargeError("too large")
        return ascii(value)
    raise PlainValueError(kind.__name__)


def decode(text: str) -> Any:
    """The value that ``encode`` wrote. Raises ValueError for any other text, however it was made.

    >>> decode("{'a': (1, -0.5, inf), 2: {True}}")
    {'a': (1, -0.5, inf), 2: {True}}
    >>> decode("__import__('os')")
    Traceback (most recent call last):
    ...
    ValueError: not a plain value
    """
    if len(text) > MAX_CHARS:
        raise ValueError("too large")
    try:
        tree = compile(text, "<value>", "eval", _PARSE_ONLY, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
        raise ValueError(f"not a plain value: {type(error).__name__}") from None
    try:
        return _read(tree.body, _MAX_DEPTH)
    except (TypeError, RecursionError, MemoryError, OverflowError) as error:
        raise ValueError(f"not a plain value: {type(error).__name__}") from None


def _read(node: Any, depth: int) -> Any:
    if depth == 0:
        raise ValueError("nested too deeply")
    kind = type(node)
    if kind is ast.Constant:
        if type(node.value) in (int, float, str, bytes, bool, type(None)):
            return node.value
    elif kind is ast.List:
        return [_read(each, depth - 1) for each in node.elts]
    elif kind is ast.Tuple:
        return tuple([_read(each, depth - 1) for each in node.elts])
    elif kind is ast.Set:
        return {_read(each, depth - 1) for each in node.elts}
    elif kind is ast.Dict:
        keys, values = node.keys, node.values
        return {_read(key, depth - 1): _read(value, depth - 1) for key, value in zip(keys, values, strict=True)}
    elif kind is ast.UnaryOp and type(node.op) is ast.USub:
        inner = _read(node.operand, depth - 1)
        if type(inner) in (int, float):
            return -inner
    elif kind is ast.Name and node.id in _WORDS:
        return _WORDS[node.id]
    elif kind is ast.Call and type(node.func) is ast.Name and not node.keywords:
        return _called(node.func.id, [_read(each, depth - 1) for each in node.args])
    raise ValueError("not a plain value")


def _called(name: str, arguments: list[Any]) -> Any:
    """``set()``, ``frozenset()``, ``frozenset({...})`` and ``complex(a, b)``."""
    kinds = [type(each) for each in arguments]
    if name == "set" and not kinds:
        return set()
    if name == "frozenset" and kinds in ([], [set]):
        return frozenset(*arguments)
    if name == "complex" and kinds == [float, float]:
        return complex(*arguments)
    raise ValueError("not a plain value")
