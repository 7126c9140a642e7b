from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from loopeng.store import LoopStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LoopStore]:
    with LoopStore.open(tmp_path / "loop.db") as opened:
        yield opened
