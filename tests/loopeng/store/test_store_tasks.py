from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from loopeng.errors import NotFoundError, StoreError
from loopeng.store import LoopStore


def test_a_task_comes_back_equal(store: LoopStore, make: Any) -> None:
    """Aliases, parameters of evaluators' own, tuples, paths, and text that needs care."""
    task = make.task(
        **{"pass": {"mode": "weighted", "threshold": 0.5}},
        path=Path("shop/task.yaml"),
        evaluators=[{"id": "a", "type": "json", "schema": {"required": ["ü", "x"]}, "choices": [1, 2.5, None]}],
        loop={"temperatures": [0, 0.4, 0.8]},
        engine={"drafter": ["ngram", "suffix"], "stop": ["\n\n", "\x00"]},
        samples=[{"id": "s1", "inputs": {"a": [1, {"b": "“”"}]}, "target": {"n": 1e-9}, "split": "gate", "group": "g"}],
    )
    store.save_task(task)
    assert store.task(task.version_hash) == task
    assert store.task(task.version_hash).version_hash == task.version_hash


def test_saving_twice_keeps_one_and_follows_the_file(store: LoopStore, make: Any) -> None:
    first, moved = make.task(path=Path("old/task.yaml")), make.task(path=Path("new/task.yaml"))
    assert first.version_hash == moved.version_hash
    for task in (first, first, moved):
        store.save_task(task)
    assert store.task(first.version_hash) == moved


@pytest.mark.parametrize("path", [None, Path("shop/task.yaml")])
def test_a_task_that_is_there_is_not_written_again(store: LoopStore, make: Any, path: Path | None) -> None:
    """Every call of an application is a run; with ten thousand samples in its task each would write them all."""
    task = make.task(path=path)
    store.save_task(task)
    with closing(sqlite3.connect(store.path)) as connection:
        connection.execute("CREATE TRIGGER t BEFORE UPDATE ON task_version BEGIN SELECT RAISE(ABORT, 'again'); END")
        connection.commit()
    store.save_task(task)
    with pytest.raises(StoreError, match="again"):
        store.save_task(make.task(path=Path("moved/task.yaml")))


def test_versions_of_a_task_are_kept_apart(store: LoopStore, make: Any) -> None:
    first, second = make.task(), make.task(template="Say {{ product }}{{ rules }}")
    store.save_task(first)
    store.save_task(second)
    assert store.task(first.version_hash) == first
    assert store.task(second.version_hash) == second


def test_an_unknown_task_names_those_there_are(store: LoopStore, make: Any) -> None:
    with pytest.raises(NotFoundError, match="there are versions of: none"):
        store.task("0" * 64)
    store.save_task(make.task(name="shop"))
    with pytest.raises(NotFoundError, match="there are versions of: shop"):
        store.task("0" * 64)
