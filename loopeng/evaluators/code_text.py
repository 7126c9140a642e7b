"""Reads answers and conversations for code: the code of an answer, and the examples a conversation shows."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

__all__ = ["extract_code", "looks_like_code", "shown_examples"]

_BLOCK = re.compile(r"^[ \t]*```[ \t]*([\w+.-]*)[^\n]*\n(.*?)(?:^[ \t]*```[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_PYTHON = frozenset(("", "py", "python", "python3", "py3"))
_CODE_LINE = re.compile(
    r"^\s*(def |class |return\b|import |from \w+ import|for .*:$|while .*:$|if .*:$|[\w\[\], .]+ = )", re.M
)
_DOCTEST = re.compile(r"^[ \t]*>>>[ \t]*(.+)\n[ \t]*(?!>>>)(\S.*)$", re.MULTILINE)


def extract_code(text: str, function: str | None = None) -> str:
    """The code of an answer: from its ``` blocks, or the whole text where there is none.

    Of several blocks of Python the last that defines ``function`` counts, after those before it that define only other
    things, its helpers; where none defines it, all of them together. A block that was never closed reaches to the end.

    >>> extract_code("Use this:\\n```python\\nx = 1\\n```\\nDone.")
    'x = 1\\n'
    """
    blocks = [(language.lower(), code) for language, code in _BLOCK.findall(text)]
    python = [code for language, code in blocks if language in _PYTHON] or [code for _, code in blocks]
    if not python:
        return text
    is_definition = re.compile(rf"^(async )?def {re.escape(function)}\b" if function else "(?!)", re.MULTILINE)
    places = [place for place, code in enumerate(python) if is_definition.search(code)]
    if function is None or not places:
        return "\n".join(python)
    return "\n".join([*(code for code in python[: places[-1]] if _is_helper(code, function)), python[places[-1]]])


def _is_helper(code: str, function: str) -> bool:
    """Whether a block only imports and defines, and not ``function``: an example of that must not run before it."""
    try:
        body = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return bool(body) and all(_is_definition(node, function) for node in body)


def _is_definition(node: ast.stmt, function: str) -> bool:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return node.name != function
    if isinstance(node, ast.Assign | ast.AnnAssign):
        return all(not isinstance(each, ast.Name) or each.id != function for each in ast.walk(node))
    return isinstance(node, ast.Import | ast.ImportFrom)


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
