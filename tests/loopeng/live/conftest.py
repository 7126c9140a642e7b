"""A database made once, and copied: migrating is the slow part."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from loopeng import Loop
from loopeng.store import LoopStore
from tests.loopeng.live.traffic import open_loop, traffic


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


@pytest.fixture(scope="session")
def database_after_calls(tmp_path_factory: pytest.TempPathFactory, empty_live_database: Path) -> Path:
    path = tmp_path_factory.mktemp("live") / "after.db"
    shutil.copyfile(empty_live_database, path)
    with open_loop(path) as loop:
        traffic(loop)
    return path


@pytest.fixture
def busy_path(path: Path, database_after_calls: Path) -> Path:
    """A database with forty calls, each of which failed."""
    shutil.copyfile(database_after_calls, path)
    return path


@pytest.fixture
def busy(busy_path: Path) -> Iterator[Loop]:
    with open_loop(busy_path) as loop:
        yield loop


@pytest.fixture
def loop(path: Path) -> Iterator[Loop]:
    with open_loop(path) as loop:
        yield loop
