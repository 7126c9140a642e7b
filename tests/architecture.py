"""Checks on the shape of a package, by syntax tree alone: nothing is imported, so every kind of import counts.

Each check takes a ``Tree`` and gives findings, one sentence each; no finding means the rule holds.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

__all__ = ["Module", "Tree", "confinement", "cycles", "exports", "forbidden_names", "layering", "sizes"]

Layers = Sequence[Sequence[str]]  # top first; names below the package, "models.*" stands for what is in a folder


@dataclass(frozen=True)
class Import:
    """``import module`` or ``from module import name``, on a line."""

    module: str
    name: str | None
    line: int


@dataclass(frozen=True)
class Module:
    """One file: its dotted name and its syntax tree."""

    name: str
    path: Path

    @cached_property
    def source(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def syntax(self) -> ast.Module:
        return ast.parse(self.source, str(self.path))

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @cached_property
    def imports(self) -> tuple[Import, ...]:
        """Everything imported anywhere in the file, inside functions and ``if TYPE_CHECKING`` too."""
        found: list[Import] = []
        for node in ast.walk(self.syntax):
            if isinstance(node, ast.Import):
                found += [Import(alias.name, None, node.lineno) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                found += [Import(self._absolute(node), alias.name, node.lineno) for alias in node.names]
            elif isinstance(node, ast.Call):
                found += _imported_by_call(node)
        return tuple(found)

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = self.name.split(".")
        parts = parts[: len(parts) - node.level + self.is_package]
        return ".".join([*parts, node.module] if node.module else parts)


def _imported_by_call(node: ast.Call) -> Iterator[Import]:
    """``import_module("x")`` and ``__import__("x")`` with the name written out."""
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if called in ("import_module", "__import__") and node.args and isinstance(node.args[0], ast.Constant):
        yield Import(str(node.args[0].value), None, node.lineno)


@dataclass(frozen=True)
class Tree:
    """A package on disk."""

    root: Path  # the package's folder

    @property
    def package(self) -> str:
        return self.root.name

    @cached_property
    def modules(self) -> Mapping[str, Module]:
        found = {}
        for path in sorted(self.root.rglob("*.py")):
            parts = path.relative_to(self.root.parent).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = Module(name, path)
        return found

    def place(self, module: Module) -> str:
        return module.path.relative_to(self.root.parent).as_posix()

    def own_imports(self, module: Module) -> Iterator[tuple[str, int]]:
        """(module of this package, line) for each import; a name that is no module counts as its module's."""
        for item in module.imports:
            if item.module.split(".")[0] == self.package:
                longer = f"{item.module}.{item.name}"
                yield (longer if longer in self.modules else item.module), item.line


def layering(tree: Tree, layers: Layers) -> list[str]:
    """A line may import itself and the lines above it. A module that stands in no line is a finding too."""
    findings = []
    for module in tree.modules.values():
        line = _line_of(module.name, tree.package, layers)
        if line is None:
            findings.append(f"{tree.place(module)} stands in no layer: place it in the list in test_architecture.py")
            continue
        for target, lineno in tree.own_imports(module):
            other = _line_of(target, tree.package, layers)
            if other is not None and other > line:
                findings.append(f"{tree.place(module)}:{lineno} imports {target}, which stands below it")
    return findings


def _line_of(name: str, package: str, layers: Layers) -> int | None:
    inner = name.removeprefix(package).removeprefix(".") or "__init__"
    best: tuple[int, int] | None = None  # (length of the entry that matches, line): the most precise entry decides
    for index, line in enumerate(layers):
        for entry in line:
            stem = entry.removesuffix(".*")
            if inner == stem or inner.startswith(stem + "."):
                best = max(best or (0, 0), (len(stem), index))
    return None if best is None else best[1]


def cycles(tree: Tree) -> list[str]:
    """No module may reach itself. A package's ``__init__`` and the modules it re-exports count as separate modules."""
    graph = {name: {target for target, _ in tree.own_imports(module)} for name, module in tree.modules.items()}
    try:
        TopologicalSorter({name: targets - {name} for name, targets in graph.items()}).prepare()
    except CycleError as error:
        return ["import cycle: " + " -> ".join(reversed(error.args[1]))]
    return []


def confinement(tree: Tree, rooms: Mapping[str, Sequence[str]]) -> list[str]:
    """A third party may be imported only in its rooms (glob patterns relative to the folder above the package)."""
    return [
        f"{tree.place(module)}:{item.line} imports {item.module}; its rooms are {', '.join(rooms[owner]) or 'none'}"
        for module in tree.modules.values()
        for item in module.imports
        if (owner := item.module.split(".")[0]) in rooms
        and not any(_matches(tree.place(module), pattern) for pattern in rooms[owner])
    ]


def _matches(place: str, pattern: str) -> bool:
    """``*`` stays within a folder, ``**`` does not."""
    translated = re.escape(pattern).replace(r"\*\*", ".*").replace(r"\*", "[^/]*")
    return re.fullmatch(translated, place) is not None


def sizes(
    tree: Tree, exceptions: Mapping[str, str], max_file_lines: int = 300, max_function_lines: int = 40
) -> list[str]:
    """Files and functions (from ``def`` to the last line) are below the limits. A needless exception is a finding."""
    findings: dict[str, str] = {}
    for module in tree.modules.values():
        place = tree.place(module)
        if (length := len(module.source.splitlines())) >= max_file_lines:
            findings[place] = f"{place} has {length} lines"
        for name, node in _functions(module.syntax):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length >= max_function_lines:
                findings[f"{place}::{name}"] = f"{place}:{node.lineno} {name} has {length} lines"
    stale = [f"{key} is excepted but small enough" for key in exceptions if _is_in(key, tree) and key not in findings]
    return [text for key, text in findings.items() if key not in exceptions] + stale


def _is_in(key: str, tree: Tree) -> bool:
    return key.startswith(tree.package + "/")


def _functions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for child in ast.iter_child_nodes(node):
        name = prefix
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{prefix}.{child.name}".lstrip(".")
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield name, child
        yield from _functions(child, name)


def exports(tree: Tree, exempt: Sequence[str] = ()) -> list[str]:
    """Each module has ``__all__``: every public name it defines, none that is not there, sorted as ruff's RUF022."""
    findings = []
    for module in tree.modules.values():
        place = tree.place(module)
        if any(_matches(place, pattern) for pattern in exempt):
            continue
        defined, bound, declared = _names(module.syntax)
        if declared is None:
            if bound:
                findings.append(f"{place} has no __all__")
            continue
        if missing := sorted(defined - set(declared)):
            findings.append(f"{place}: __all__ lacks {', '.join(missing)} (or they want an underscore)")
        if unknown := sorted(set(declared) - bound):
            findings.append(f"{place}: __all__ names {', '.join(unknown)}, which the module does not have")
        if declared != sorted(declared, key=_export_key):
            findings.append(f"{place}: __all__ is not sorted")
    return findings


def _names(syntax: ast.Module) -> tuple[set[str], set[str], list[str] | None]:
    """(public names defined here, names bound in any way, the list in ``__all__``), from the top level."""
    defined: set[str] = set()
    bound: set[str] = set()
    declared: list[str] | None = None
    for node in _top_level(syntax.body):
        if isinstance(node, ast.Import | ast.ImportFrom):
            if getattr(node, "module", "") != "__future__":
                bound |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
            continue
        for name in _defined_by(node):
            if name == "__all__":
                declared = list(ast.literal_eval(node.value))  # type: ignore[attr-defined]
            else:
                bound.add(name)
                defined |= {name} if not name.startswith("_") else set()
    return defined, bound, declared


def _top_level(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        if isinstance(node, ast.If | ast.Try):
            yield from _top_level([*node.body, *node.orelse])
            yield from _top_level([line for handler in getattr(node, "handlers", []) for line in handler.body])
        else:
            yield node


def _defined_by(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Assign) and not _is_type_variable(node.value):
        for target in node.targets:
            yield from (part.id for part in ast.walk(target) if isinstance(part, ast.Name))
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id


def _is_type_variable(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and getattr(value.func, "id", "") in ("TypeVar", "ParamSpec", "TypeVarTuple")


def _export_key(name: str) -> tuple[int, list[tuple[int, int | str]]]:
    """SCREAMING_CASE, then CamelCase, then the rest; numbers by value."""
    kind = 0 if name.isupper() else 1 if name[:1].isupper() else 2
    return kind, [(0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", name) if part]


def forbidden_names(tree: Tree, patterns: Sequence[str]) -> list[str]:
    """No file whose place matches one of the patterns."""
    return [
        f"{tree.place(module)}: name it by what it does"
        for module in tree.modules.values()
        for pattern in patterns
        if _matches(tree.place(module), pattern)
    ]
