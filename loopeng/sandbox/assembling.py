"""From an answer's code to programs that run one after the other: a whole module, or the rest of a prompt's function.

Runs in the candidate's interpreter: an answer is not even parsed outside the sandbox.
"""

from __future__ import annotations

import _ast as ast
from typing import Any

__all__ = ["assemble"]

_PARSE_ONLY = 0x400
_STARTS = ("def ", "class ", "import ", "from ", "@", "async def ")


def assemble(code: str, prompt: str, function: str) -> list[str]:
    """The programs of an answer, for one namespace. ``prompt`` is code that the answer may continue, or empty.

    An answer that defines ``function`` itself runs after the prompt, so that its imports and helpers are there.
    Otherwise it is tried as the rest of the prompt's function: as it stands, indented, with its first line indented.
    Failing all that, prose before the first ``def`` or ``import`` is dropped. A text that is no program comes back as
    it is.

    >>> print(*assemble("return x + 1", "def f(x):\\n    '''One more.'''\\n", "f"))
    def f(x):
        '''One more.'''
        return x + 1
    """
    code = code.replace("\r\n", "\n")
    trimmed = _without_prose(code)
    if not prompt:
        return [code if _parsed(code) is not None or _parsed(trimmed) is None else trimmed]
    for whole in (code, trimmed):
        if _defines(whole, function):
            return [prompt, whole] if _parsed(prompt) is not None else [whole]
    stub = _size(prompt, function)
    for rest in (code, _indented(code), f"    {code.lstrip()}"):
        program = f"{prompt.rstrip()}\n{rest.lstrip(chr(10))}"
        if _size(program, function) > stub:
            return [program]
    return [code if _parsed(code) is not None else f"{prompt.rstrip()}\n{code}"]


def _without_prose(code: str) -> str:
    lines = code.split("\n")
    first = next((index for index, line in enumerate(lines) if line.startswith(_STARTS)), 0)
    return "\n".join(lines[first:])


def _indented(code: str) -> str:
    return "\n".join(f"    {line}" if line.strip() else line for line in code.split("\n"))


def _parsed(source: str) -> Any:
    try:
        return compile(source, "<answer>", "exec", _PARSE_ONLY, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return None


def _definitions(source: str, name: str) -> list[Any]:
    tree = _parsed(source)
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return [each for each in tree.body if isinstance(each, kinds) and each.name == name] if tree is not None else []


def _defines(source: str, name: str) -> bool:
    tree = _parsed(source)
    if tree is None:
        return False
    assigned = [target for each in tree.body if isinstance(each, ast.Assign) for target in each.targets]
    names = [target.id for target in assigned if isinstance(target, ast.Name)]
    return name in names or bool(_definitions(source, name))


def _size(source: str, name: str) -> int:
    """Statements in the function's body; 0 where there is none."""
    found = _definitions(source, name)
    return len(found[-1].body) if found else 0
