"""A database made once, and copied: migrating is the slow part."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from loopeng import Loop
from loopeng.store import LoopStore
from tests.loopeng.live.traffic import open_loop


@pytest.fixture(scope="session")
def empty_live_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("live") / "empty.db"
    LoopStore.open(path).close()
    return path


@pytest.fixture
def path(tmp_path: Path, empty_live_database: Path) -> Path:
    path = tmp_path / "app" / "loop.db"
    path.parent.mkdir()
    shutil.copyfile(empty_live_database, path)
    return path


@pytest.fixture
def loop(path: Path) -> Iterator[Loop]:
    with open_loop(path) as loop:
        yield loop
