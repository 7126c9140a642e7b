"""Which tests there are: a text of tests becomes steps, one for each assertion that can stand alone.

Tests are a function ``check(candidate)``, or lines with ``assert``. What stands before an assertion (an import, a
variable) belongs to it, and what stands after the last one to that; a loop or a ``try`` is one test as a whole, and so
is a call that asserts: ``assert_equal(f(2), 4)``, ``check_all(f)``. Nothing is left out in silence.
"""

from __future__ import annotations

import ast
import builtins
import sys
import threading
import warnings
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

__all__ = ["TestPlan", "TestStep", "example_steps", "plan_tests"]

_CANDIDATE, _CHECK = "candidate", "check"
_PREPARATION = (
    *(ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.AugAssign),
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Pass),
)
_Parts = list[tuple[list[ast.stmt], ast.stmt]]  # all that is run for a test, and the test itself
_QUIET = threading.Lock()  # catch_warnings is for one thread at a time
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_ENDS_A_FUNCTION = (ast.Return, ast.Yield, ast.YieldFrom, ast.Await, ast.Nonlocal, ast.Global)


@dataclass(frozen=True)
class TestStep:
    """One test: ``source`` is run, ``label`` is its assertion as one line; ``expected`` only for a shown example."""

    __test__ = False  # not one of pytest's

    source: str
    label: str
    expected: str | None = None


@dataclass(frozen=True)
class TestPlan:
    """Tests ready to run. ``names`` are what they call the candidate's functions, with the functions' names."""

    __test__ = False

    names: dict[str, str]
    setup: str
    steps: tuple[TestStep, ...]


def plan_tests(tests: str, *, setup: str = "", entry_point: str | None = None) -> TestPlan:
    """Read tests. Raises ValueError where they are no Python, call nothing, or need an entry point that is not given.

    >>> plan = plan_tests("import math\\nassert double(2) == 4\\nassert double(0) == 0")
    >>> plan.names, [step.label for step in plan.steps]
    ({'double': 'double'}, ['assert double(2) == 4', 'assert double(0) == 0'])
    """
    body, before = _parsed(tests, "tests"), _parsed(setup, "setup")
    check = next((each for each in body if isinstance(each, ast.FunctionDef) and each.name == _CHECK), None)
    _refuse_what_never_runs([each for each in body if each is not check], body)
    if check is not None:
        if entry_point is None:
            raise ValueError("tests with check(candidate) need 'entry_point', the name of the function to test")
        argument = check.args.args[0].arg if check.args.args else _CANDIDATE
        names = {argument: entry_point, entry_point: entry_point}
        around = [each for each in body if each is not check and not _calls(each, _CHECK)]
        whole = any(isinstance(node, _ENDS_A_FUNCTION) for node in _outside_functions(check.body))
        called = ast.parse(f"{_CHECK}({argument})").body[0]
        asking = _asking([*before, *body], names)
        parts = [([check, called], called)] if whole else _grouped(check.body, asking)
        setup = "\n".join([setup, *map(ast.unparse, around)])
        _refuse_what_never_runs(check.body, body)
    else:
        called_names = [entry_point] if entry_point else _free_names(body, before)
        names = {name: name for name in called_names}
        parts = _grouped(body, _asking([*before, *body], names))
    if not parts or not names:
        raise ValueError("the tests hold no assertion that calls a function")
    setup = "\n".join([setup, *_missing_imports([*before, *body], set(names))])
    return TestPlan(names, setup, tuple(_step(*part) for part in parts))


def example_steps(pairs: Iterable[tuple[str, str]]) -> tuple[TestStep, ...]:
    """Steps from shown examples: a call and the value it should return, both as written."""
    return tuple(TestStep(f"assert ({call}) == ({value})", call, value) for call, value in pairs)


def _parsed(source: str, what: str) -> list[ast.stmt]:
    try:
        with _QUIET, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an escape sequence in a docstring is the data's matter
            return ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"the {what} are no Python: {error}") from None


def _grouped(statements: Sequence[ast.stmt], asking: Set[str]) -> _Parts:
    """Each test with all that is run for it: what stands before it, itself, and after the last one the rest."""
    groups: _Parts = []
    waiting: list[ast.stmt] = []
    for statement in statements:
        waiting.append(statement)
        if _is_test(statement, asking):
            groups.append((waiting, statement))
            waiting = []
    if groups:
        groups[-1][0].extend(waiting)
    return groups


def _is_test(statement: ast.stmt, asking: Set[str]) -> bool:
    if isinstance(statement, _PREPARATION) or _calls(statement, "print"):
        return False
    if isinstance(statement, ast.Assert):
        return any(name in asking or not hasattr(builtins, name) for name in _names(statement))
    return _asks(statement, asking)


def _asks(node: ast.AST, asking: Set[str]) -> bool:
    """Whether something is asserted here, or the candidate called."""
    names = _names(node)
    asserts = any(isinstance(each, ast.Assert) for each in ast.walk(node))
    return asserts or any(name in asking or "assert" in name.lower() for name in names)


def _asking(statements: Sequence[ast.stmt], names: Iterable[str]) -> set[str]:
    """The candidate's names, and those of functions in the tests that assert something or call it."""
    asking = set(names)
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, _DEFINITIONS) and _asks(node, asking):
                asking.add(node.name)
    return asking - {_CHECK}


def _names(node: ast.AST) -> list[str]:
    nodes = list(ast.walk(node))
    plain = [each.id for each in nodes if isinstance(each, ast.Name)]
    return plain + [each.attr for each in nodes if isinstance(each, ast.Attribute)]


def _calls(statement: ast.stmt, name: str) -> bool:
    """Whether it is no more than a call of that function."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == name


def _refuse_what_never_runs(statements: Sequence[ast.stmt], everything: Sequence[ast.stmt]) -> None:
    """Raises ValueError for a function with an assertion that nothing mentions: its tests would pass unseen."""
    mentioned = {name for statement in everything for name in _names(statement)}
    for each in statements:
        if isinstance(each, _DEFINITIONS) and _asks(each, frozenset()) and each.name not in mentioned:
            raise ValueError(f"the tests define {each.name} with an assertion and never call it: call it")


def _step(statements: list[ast.stmt], test: ast.stmt) -> TestStep:
    return TestStep("\n".join(map(ast.unparse, statements)), " ".join(ast.unparse(test).split()))


def _outside_functions(statements: Sequence[ast.AST]) -> Iterable[ast.AST]:
    """All nodes but those inside functions and classes of their own."""
    for node in statements:
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            yield from _outside_functions(list(ast.iter_child_nodes(node)))


def _free_names(tests: list[ast.stmt], setup: list[ast.stmt]) -> list[str]:
    """Names that the tests call and nobody defines: the candidate's functions, in order.

    Where all of them are built in, as for a function called ``sum``, the one called first is meant.
    """
    bound = _all_bound([*setup, *tests])
    calls = [node.func for statement in tests for node in ast.walk(statement) if isinstance(node, ast.Call)]
    called = [function.id for function in calls if isinstance(function, ast.Name) and function.id not in bound]
    free = [name for name in called if not hasattr(builtins, name)]
    return list(dict.fromkeys(free or called[:1]))


def _missing_imports(statements: list[ast.stmt], known: set[str]) -> list[str]:
    """Imports of standard modules that the tests use and leave to the solution to import."""
    nodes = [node for statement in statements for node in ast.walk(statement)]
    used = [node.value.id for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)]
    wanted = set(used) & sys.stdlib_module_names - known - _all_bound(statements)
    return [f"import {name}" for name in sorted(wanted)]


def _all_bound(statements: list[ast.stmt]) -> set[str]:
    return {name for statement in statements for node in ast.walk(statement) for name in _bound(node)}


def _bound(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        return [node.id]
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.arg):
        return [node.arg]
    if isinstance(node, ast.alias):
        return [(node.asname or node.name).split(".")[0]]
    return []
