"""Requirements as the package's metadata has them, against what is installed."""

from __future__ import annotations

import tomllib

import pytest

from loopeng.doctor import examine_libraries
from loopeng.doctor.libraries import Requirement, read_requirement
from tests.loopeng.cli.conftest import ROOT
from tests.loopeng.doctor.conftest import by_name


def test_every_requirement_of_ours_can_be_read() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = project["dependencies"] + [line for extra in project["optional-dependencies"].values() for line in extra]
    assert all(read_requirement(line).least for line in lines)
    assert project["requires-python"].startswith(">=")
    with pytest.raises(ValueError, match="cannot read"):
        read_requirement("torch @ file:///somewhere")


@pytest.mark.parametrize(
    ("line", "least"),
    [
        ("torch>=2.9,<3", "2.9"),
        ("torch<3,>=2.9", "2.9"),
        ("torch ~= 2.9", "2.9"),
        ("torch!=3.1.*", None),
        ("torch (>=2.9,!=3.0)", "2.9"),
        ("torch==2.9.1+cpu ; extra == 'cpu'", None),
    ],
)
def test_other_bounds_than_the_least_version_are_read_too(line: str, least: str | None) -> None:
    found = read_requirement(line)
    assert (found.name, found.least, found.extra) == ("torch", least, "cpu" if "extra" in line else None)


def test_a_library_is_there_and_new_enough_or_it_is_told() -> None:
    assert Requirement("pydantic", "2").problem is None
    assert Requirement("no-such-library-anywhere", "1").problem == "no-such-library-anywhere is not installed"
    problem = Requirement("pydantic", "99.1").problem
    assert problem is not None and problem.startswith("pydantic 2.") and problem.endswith("older than 99.1")
    told = by_name(examine_libraries())
    assert told["python"].status == "ok" and "needs 3.11 or later" in told["python"].text
