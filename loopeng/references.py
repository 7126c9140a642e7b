"""References to Python objects as ``module:name``, so that another process can find them."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loopeng.errors import TaskError
from loopeng.validation import did_you_mean

__all__ = ["import_reference", "reference_of"]


def import_reference(reference: str, base_dir: Path | None = None) -> Any:
    """The object that ``module:name`` names. ``base_dir``, the task's folder, comes first on the import path.

    Raises TaskError when there is no such module or name, or when importing the module fails.
    """
    module_name, _, attribute = reference.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), *attribute.split("."))):
        raise TaskError(f"{reference!r} is not a reference to Python code", suggestion="write module:function")
    module = _import_module(module_name, base_dir)
    value: Any = module
    for name in attribute.split("."):
        try:
            value = getattr(value, name)
        except AttributeError:
            hint = did_you_mean(name, [each for each in dir(value) if not each.startswith("_")])
            raise TaskError(f"module {module_name!r} has no {attribute!r}", suggestion=hint) from None
    return value


def reference_of(function: Callable[..., Any]) -> str | None:
    """``module:name`` of a function that can be imported by it; None for lambdas, local functions and scripts."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not module or not name or module == "__main__" or "<" in name:
        return None
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return f"{module}:{name}" if found is function else None


def _import_module(name: str, base_dir: Path | None) -> Any:
    if base_dir is not None:
        folder = str(base_dir.resolve())
        if folder not in sys.path:
            sys.path.insert(0, folder)
            importlib.invalidate_caches()
        _refuse_namesake(name, base_dir)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise TaskError(f"there is no module {name!r}", suggestion=_module_hint(name, base_dir)) from None
        raise TaskError(f"module {name!r} needs {error.name!r}, which is not installed") from None
    except (Exception, SystemExit) as error:  # noqa: BLE001  the user's module may raise anything
        raise TaskError(f"module {name!r} cannot be imported: {type(error).__name__}: {error}") from None


def _refuse_namesake(name: str, base_dir: Path) -> None:
    """Two task folders may both have a checks.py; Python keeps only one module of a name."""
    own = base_dir.resolve().joinpath(*name.split(".")).with_suffix(".py")
    loaded = getattr(sys.modules.get(name), "__file__", None)
    if own.is_file() and loaded and Path(loaded).resolve() != own:
        raise TaskError(f"another module {name!r} is in use already: {loaded}", suggestion=f"rename {own.name}")


def _module_hint(name: str, base_dir: Path | None) -> str | None:
    if base_dir is None:
        return None
    near = [each.name for each in pkgutil.iter_modules([str(base_dir)])]
    top = name.partition(".")[0]
    return did_you_mean(top, near) or f"put {top}.py beside the task file"
