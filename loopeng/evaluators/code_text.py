"""Reads answers and conversations for code: the code of an answer, and the examples a conversation shows."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from keyword import kwlist

__all__ = ["extract_code", "looks_like_code", "shown_examples"]

# Possessive (``*+``), so that no text, however made, is tried in more than one way.
_BLOCK = re.compile(r"^[ \t]*+```[ \t]*+([\w+.-]*+)[^\n]*+\n(.*?)(?:^[ \t]*+```[ \t]*+$|\Z)", re.DOTALL | re.MULTILINE)
_PYTHON = frozenset(("", "py", "python", "python3", "py3"))
_CODE_LINE = re.compile(
    r"^[ \t]*+(?:def |class |return\b|import |from \w+ import|for .*:$|while .*:$|if .*:$|[\w\[\], .]+ = )", re.M
)
_DOCTEST = re.compile(r"^[ \t]*+>>>[ \t]*+(.++)\n[ \t]*+(?!>>>)(\S.*+)$", re.MULTILINE)
_DEFINED = re.compile(r"^(?:(?:async +)?def|class) +(\w+)|^(\w+) *=|^(?:from [^\n]* )?import +([^\n]+)", re.MULTILINE)


def extract_code(text: str, function: str | None = None) -> str:
    """The code of an answer: from its ``` blocks, or the whole text where there is none.

    Of several blocks of Python the last that defines ``function`` counts, with those blocks that define at top level
    what it needs; where none defines it, all of them together. A block that was never closed reaches to the end.

    >>> extract_code("Use this:\\n```python\\nx = 1\\n```\\nDone.")
    'x = 1\\n'
    """
    blocks = [(language.lower(), code) for language, code in _BLOCK.findall(text)]
    python = [code for language, code in blocks if language in _PYTHON] or [code for _, code in blocks]
    if not python:
        return text
    defining = [code for code in python if function in _defined(code)] if function else []
    if not defining:
        return "\n".join(python)
    needed = _words(defining[-1]) - _defined(defining[-1])
    helpers = [code for code in python if function not in _words(code) and needed & _defined(code)]
    return "\n".join([*helpers, defining[-1]])


def _defined(code: str) -> set[str]:
    """Names of a block's top level: functions, classes, variables, imports."""
    return {name for found in _DEFINED.findall(code) for name in _words(" ".join(found))}


def _words(code: str) -> set[str]:
    return set(re.findall(r"\w+", code)).difference(kwlist)


def looks_like_code(text: str) -> bool:
    """Whether any line could be one of Python.

    >>> looks_like_code("return x + 1"), looks_like_code("I cannot do that.")
    (True, False)
    """
    return _CODE_LINE.search(text) is not None


def shown_examples(texts: Sequence[str], function: str) -> list[tuple[str, str]]:
    """Calls of ``function`` with their values, as the conversation shows them after ``>>>``, both plain to read.

    >>> shown_examples(["'''\\n    >>> double(2)\\n    4\\n    >>> double(x)\\n    0\\n'''"], "double")
    [('double(2)', '4')]
    """
    found = [match for text in texts for match in _DOCTEST.findall(text)]
    pairs = [(call.strip(), value.strip()) for call, value in found]
    return list(dict.fromkeys(pair for pair in pairs if _is_example(*pair, function)))


def _is_example(call: str, value: str, function: str) -> bool:
    try:
        tree = ast.parse(call, mode="eval").body
        ast.literal_eval(value)
        if not (isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id == function):
            return False
        for argument in [*tree.args, *(keyword.value for keyword in tree.keywords)]:
            ast.literal_eval(argument)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return False
    return True
