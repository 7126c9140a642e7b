"""Python and the libraries, against what the installed package asks for; packages that add evaluator types."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata, requires, version

from loopeng.doctor.findings import Finding
from loopeng.evaluators import hidden_types

__all__ = ["Requirement", "examine_libraries", "read_requirement"]

_PACKAGE = "loopeng"
_BOUNDS = r"(?:(?:===|[<>=!~]=|[<>])\s*[\w.*+!-]+\s*,?\s*)*"  # as in >=2.9, !=3.1.*, <4
_REQUIREMENT = re.compile(rf"([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*\(?({_BOUNDS})\)?\s*(?:;\s*(.*))?")
_LEAST = re.compile(r"(?:>=|~=)\s*([\d.]+)")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([\w-]+)['\"]")
_FOR_DEVELOPERS = "dev"


@dataclass(frozen=True)
class Requirement:
    """A library with its least version, and the extra that asks for it (None: always). Other bounds are pip's."""

    name: str
    least: str | None
    extra: str | None = None

    @property
    def problem(self) -> str | None:
        """Why it is not met here, or None."""
        try:
            found = version(self.name)
        except PackageNotFoundError:
            return f"{self.name} is not installed"
        if self.least is not None and _numbers(found) < _numbers(self.least):
            return f"{self.name} {found} is older than {self.least}"
        return None


def read_requirement(text: str) -> Requirement:
    """A line of the package's metadata. Raises ValueError for a form that the package does not use.

    >>> read_requirement("torch>=2.9"), read_requirement("gepa>=0.1; extra == 'gepa'").extra
    (Requirement(name='torch', least='2.9', extra=None), 'gepa')
    """
    match = _REQUIREMENT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"cannot read the requirement {text!r}")
    least, extra = _LEAST.search(match[2]), _EXTRA.search(match[3] or "")
    return Requirement(match[1], least[1] if least else None, extra[1] if extra else None)


def examine_libraries() -> Iterator[Finding]:
    """Python, what is required, the extras, and evaluator types of packages that nobody gets."""
    try:
        least_python = (metadata(_PACKAGE)["Requires-Python"] or "").removeprefix(">=")
        found = [read_requirement(text) for text in requires(_PACKAGE) or ()]
    except PackageNotFoundError:
        yield Finding("package", "fail", "loopeng is not installed, only importable", "pip install loopeng")
        return
    yield _python(least_python)
    yield _required([each for each in found if each.extra is None])
    yield _extras([each for each in found if each.extra not in (None, _FOR_DEVELOPERS)])
    yield from (_hidden(name, owner) for name, owner in hidden_types().items())


def _hidden(name: str, owner: str) -> Finding:
    text = f"the evaluator type {name!r} of package {owner} cannot be used: one that ships has this name"
    return Finding("plugins", "warn", text, "give its entry point another name")


def _python(least: str) -> Finding:
    here = f"{platform.python_version()} (loopeng {version(_PACKAGE)} needs {least} or later)"
    if _numbers(platform.python_version()) < _numbers(least):
        return Finding("python", "fail", here, f"use Python {least} or later")
    return Finding("python", "ok", here)


def _required(wanted: list[Requirement]) -> Finding:
    problems = [problem for each in wanted if (problem := each.problem) is not None]
    if problems:
        return Finding("libraries", "fail", "; ".join(problems), "pip install --upgrade loopeng")
    return Finding("libraries", "ok", f"all {len(wanted)} are there and new enough")


def _extras(wanted: list[Requirement]) -> Finding:
    """An extra that is not there is no fault; one that is too old is."""
    names = sorted({each.extra for each in wanted if each.extra is not None})
    problems = {name: [each.problem for each in wanted if each.extra == name and each.problem] for name in names}
    there = ", ".join(name for name in names if not problems[name]) or "none"
    old = [problem for found in problems.values() for problem in found if problem and "older" in problem]
    missing = [name for name in names if problems[name]]
    text = f"installed: {there}" + (f"; not installed: {', '.join(missing)}" if missing else "")
    remedy = f"where you want them: pip install '{_PACKAGE}[{','.join(missing)}]'" if missing else None
    return Finding("extras", "warn" if old else "ok", "; ".join([text, *old]), remedy)


def _numbers(text: str) -> tuple[int, ...]:
    """The leading numbers of a version, without zeros at the end.

    >>> _numbers("2.9.1+cpu") > _numbers("2.9"), _numbers("5.0") == _numbers("5")
    (True, True)
    """
    match = re.match(r"\d+(?:\.\d+)*", text)
    numbers = [int(part) for part in match[0].split(".")] if match else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
