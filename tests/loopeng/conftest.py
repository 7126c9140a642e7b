"""What all tests of the loop share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from loopeng.attempt.harness import Harness, ignore_event
from loopeng.store import LoopStore


@pytest.fixture(scope="session", autouse=True)
def _no_waits_between_tries() -> Iterator[None]:
    """A broken engine is tried as often as for users; sleeping in between shows nothing. Other processes do sleep."""
    usual = Harness.__init__.__defaults__
    assert usual == (ignore_event, (0.1, 0.5))
    Harness.__init__.__defaults__ = (ignore_event, (0.0, 0.0))  # type: ignore[misc]
    yield
    Harness.__init__.__defaults__ = usual  # type: ignore[misc]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LoopStore]:
    """A new database, closed at the end."""
    with LoopStore.open(tmp_path / "loop.db") as opened:
        yield opened
