"""What the doctor's tests share: the shop after a run, as the command line's tests have it."""

from __future__ import annotations

from collections.abc import Iterable

from loopeng.doctor import Finding
from tests.loopeng.cli.conftest import environment, ran, shop_after_a_run

__all__ = ["by_name", "environment", "ran", "shop_after_a_run"]


def by_name(findings: Iterable[Finding]) -> dict[str, Finding]:
    return {each.name: each for each in findings}
