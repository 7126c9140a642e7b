"""A task that the hints repair: the scripted model writes two long sentences until a rule says otherwise."""

from __future__ import annotations

import os
import shutil
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from loopeng.attempt.harness import Harness
from loopeng.errors import LoopError
from loopeng.improve import propose
from loopeng.runner import run_suite
from loopeng.schema import EvaluatorSpec, Proposal, Sample, Task
from loopeng.schema.task import DatasetSpec, EngineSpec, LoopSpec, PromptSpec
from loopeng.store import LoopStore

SPLITS = {"reflect": 6, "gate": 5, "holdout": 3}
TEMPLATE = "Describe this product: {{ product }}{{ rules }}"
SCRIPT = """
replies:
  - {when: "teapot-gate-0", say: "It is one sentence whatever the rules say."}
  - {when: "one sentence.*at most 20 words|at most 20 words.*one sentence", say: "A fine thing."}
  - {when: "one sentence", say: "A fine thing that is good for everything you might ever want to do with it at home
     or at work or in the garden or on the road, in summer and in winter."}
default: "A fine thing. It is good for everything you might ever want to do with it at home or at work or in the garden
  or on the road."
"""


def task_in(folder: Path, **changes: Any) -> Task:
    (folder / "script.yaml").write_text(SCRIPT, encoding="utf-8")
    samples = tuple(
        Sample(id=f"{split}-{number}", inputs={"product": f"teapot-{split}-{number}"}, split=split)
        for split, count in SPLITS.items()
        for number in range(count)
    )
    values: dict[str, Any] = {
        "version": 1,
        "name": "descriptions",
        "prompt": PromptSpec(name="describe", template=TEMPLATE),
        "dataset": DatasetSpec(samples=()),
        "engine": EngineSpec(kind="scripted", script="script.yaml"),
        "evaluators": (
            EvaluatorSpec(id="one-sentence", type="sentences", max=1),
            EvaluatorSpec(id="short", type="length", max_words=25),
        ),
        "loop": LoopSpec(max_attempts=1),
        "template": TEMPLATE,
        "samples": samples,
        "path": folder / "task.yaml",
    }
    return Task(**(values | changes))


@pytest.fixture
def make_task(tmp_path: Path) -> Callable[..., Task]:
    return lambda **changes: task_in(tmp_path, **changes)


@pytest.fixture(scope="session")
def after_a_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the database of one finished suite run; tests work on copies."""
    folder = tmp_path_factory.mktemp("after_a_run")
    with LoopStore.open(folder / "loop.db") as store:
        run_suite(Harness.build(store, task_in(folder)))
    return folder


@pytest.fixture(scope="session")
def with_a_proposal(tmp_path_factory: pytest.TempPathFactory, after_a_run: Path) -> Path:
    """The same a step later: one proposal is pending."""
    folder = tmp_path_factory.mktemp("with_a_proposal") / "copy"
    shutil.copytree(after_a_run, folder)
    with LoopStore.open(folder / "loop.db") as store:
        propose(Harness.build(store, task_in(folder)))
    return folder


@pytest.fixture
def database(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """As far along as the test's other fixtures say; a new one where they say nothing."""
    for name, template in (("pending", "with_a_proposal"), ("harness", "after_a_run")):
        if name in request.fixturenames:
            shutil.copytree(request.getfixturevalue(template), tmp_path, dirs_exist_ok=True)
            break
    return tmp_path / "loop.db"


@pytest.fixture
def store(database: Path) -> Iterator[LoopStore]:
    with LoopStore.open(database) as opened:
        yield opened


@pytest.fixture
def harness(store: LoopStore, make_task: Callable[..., Task]) -> Harness:
    """After one suite run: two patterns, each on all six reflect samples."""
    return Harness.build(store, make_task())


@pytest.fixture
def pending(store: LoopStore) -> Proposal:
    """The one proposal that the run led to, waiting for a decision."""
    (proposal,) = store.proposals()
    assert proposal.state == "pending"
    return proposal


def in_child(work: Callable[[], object]) -> int:
    """Do ``work`` in a process of its own (it opens its own store); the process id comes back."""
    pid = os.fork()
    if pid:
        return pid
    try:
        work()
        os._exit(0)
    except LoopError as error:
        os._exit(error.exit_code)
    except BaseException:
        traceback.print_exc()
        os._exit(99)


@pytest.fixture
def child() -> Callable[[Callable[[], object]], int]:
    return in_child
