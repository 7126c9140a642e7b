"""Evaluator types of installed packages: entry points of the group ``loopeng.evaluators``.

The name of the entry point is the type's name; it refers to a subclass of TypedEvaluator, to a function, or to an
EvaluatorType. In a package's pyproject.toml:

    [project.entry-points."loopeng.evaluators"]
    politeness = "my_package.checks:Politeness"

A package is imported when its type is met; one that is broken disturbs nobody else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loopeng.errors import TaskError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["GROUP", "load_plugin", "plugin_names", "plugin_owners"]

GROUP = "loopeng.evaluators"


def plugin_names() -> list[str]:
    """The names that installed packages give, in order. Imports none of them."""
    return list(plugin_owners())


def plugin_owners() -> dict[str, str]:
    """The package, with its version, that gives each name, in order; the last of several. Imports none of them."""
    return {entry.name: _owner(entry) for entry in sorted(_entries(), key=lambda each: each.name)}


def load_plugin(name: str) -> tuple[Any, str] | None:
    """What a package gives under a name, and the package with its version; None where none does.

    Raises TaskError where it cannot be imported, or where two packages give different things under one name.
    """
    entries = {entry.value: entry for entry in _entries() if entry.name == name}
    if not entries:
        return None
    owners = [_owner(entry) for entry in entries.values()]
    if len(entries) > 1:
        raise TaskError(
            f"evaluator type {name!r} is given by several packages: {', '.join(sorted(owners))}",
            suggestion="uninstall all but one of them",
        )
    (entry,) = entries.values()
    try:
        return entry.load(), owners[0]
    except (Exception, SystemExit) as error:  # noqa: BLE001  a package may raise anything when it is imported
        message = f"evaluator type {name!r} of package {owners[0]} cannot be loaded: {type(error).__name__}: {error}"
        raise TaskError(message, suggestion="update or uninstall that package") from None


def _entries() -> list[EntryPoint]:
    from importlib.metadata import entry_points

    return list(entry_points(group=GROUP))


def _owner(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.value
