"""A small shop whose scripted model writes too much until two rules tell it not to."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

ROOT = Path(__file__).parents[3]

TASK = """\
version: 1
name: shop
prompt:
  name: describe
  template: |
    Describe this product: {{ product }}{{ rules }}
dataset: {path: products.jsonl, id: id, split: split}
engine: {kind: scripted, script: script.yaml}
evaluators:
  - {id: one-sentence, type: sentences, max: 1}
  - {id: short, type: length, max_words: 10}
run: {min_pass_rate: 0.9}
loop: {max_attempts: 2, retry: critique}
"""
SCRIPT = """\
replies:
  - {when: "Rules:.*sentence", say: "A fine thing for the home."}
  - {when: "p-1", say: "A good thing."}
default: "This is a very fine product that everyone will want to have at home. Buy it today, it is great."
"""
NUM_SAMPLES = 15  # five of each split; those of holdout, p-10 to p-14, pass at once
NUM_ATTEMPTS = 25  # two for each of the ten that fail


@dataclass(frozen=True)
class Shop:
    """A folder with a task."""

    folder: Path

    @property
    def db(self) -> Path:
        return self.folder / ".loopeng" / "loop.db"

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    def change(self, old: str, new: str) -> None:
        """Replace a part of task.yaml."""
        path = self.folder / "task.yaml"
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")

    def slow(self, delay_s: float) -> None:
        """Let every answer take a while."""
        self.write("script.yaml", f"{SCRIPT}delay_s: {delay_s}\n")


def make_shop(folder: Path) -> Shop:
    folder.mkdir(parents=True, exist_ok=True)
    shop = Shop(folder)
    shop.write("task.yaml", TASK)
    shop.write("script.yaml", SCRIPT)
    rows = [
        {"id": f"p-{index:02d}", "product": f"p-{index:02d}", "split": ("reflect", "gate", "holdout")[index // 5]}
        for index in range(NUM_SAMPLES)
    ]
    shop.write("products.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    return shop


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOOPENG_DB", "LOOPENG_DEBUG", "LOOPENG_QUIET", "VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LOOPENG_USER", "ana")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A fresh task in the current folder."""
    shop = make_shop(tmp_path / "shop")
    monkeypatch.chdir(shop.folder)
    return shop


@pytest.fixture(scope="session")
def shop_after_a_run(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    from loopeng.api import Loop

    shop = make_shop(tmp_path_factory.mktemp("session") / "shop")
    with Loop.open(shop.db) as loop:
        result = loop.run(shop.folder / "task.yaml")
    assert [proposal.state for proposal in result.proposals] == ["pending"]
    return shop


@pytest.fixture
def ran(shop_after_a_run: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """The task after its first run, with one proposal pending, in the current folder."""
    folder = tmp_path / "shop"
    shutil.copytree(shop_after_a_run.folder, folder)
    monkeypatch.chdir(folder)
    return Shop(folder)


Invoke = Callable[..., Result]


@pytest.fixture
def invoke() -> Invoke:
    """Run a command in this process, without a terminal."""
    from loopeng.cli.app import app

    def call(*arguments: str, code: int = 0) -> Result:
        result = CliRunner().invoke(app, arguments, prog_name="loopeng")
        shown = f"{result.stdout}\n--- stderr\n{result.stderr}"
        assert result.exit_code == code, shown
        assert "Traceback" not in shown, shown
        return result

    return call


@pytest.fixture
def pending(ran: Shop, invoke: Invoke) -> dict[str, Any]:
    """The proposal that waits, as ``queue list --json`` has it."""
    (proposal,) = json.loads(invoke("queue", "list", "--json").stdout)
    return dict(proposal)


def _default_signals() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a parent in the background may have set it to be ignored


def start(arguments: Sequence[str], **options: Any) -> subprocess.Popen[str]:
    """The command line as users start it."""
    return subprocess.Popen(
        [sys.executable, "-m", "loopeng", *arguments],
        text=True,
        env=os.environ.copy(),
        preexec_fn=_default_signals,  # noqa: PLW1509  nothing else runs in this process
        **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
    )


@pytest.fixture
def started() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start commands; none outlives the test."""
    processes: list[subprocess.Popen[str]] = []

    def call(*arguments: str, **options: Any) -> subprocess.Popen[str]:
        processes.append(start(arguments, **options))
        return processes[-1]

    yield call
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate()
