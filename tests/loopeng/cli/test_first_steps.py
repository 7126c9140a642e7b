"""Help, ``init``, ``check``, ``schema``, ``models``, and how mistakes of ours are told."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.loopeng.cli.conftest import Invoke, Shop

COMMANDS = [
    ("init",),
    ("check",),
    ("run",),
    ("propose",),
    ("gate",),
    ("work",),
    ("models",),
    ("doctor",),
    ("schema",),
    ("report",),
    ("rescore",),
    ("export",),
    *(("runs", name) for name in ("list", "show", "diff")),
    *(("failures", name) for name in ("list", "show", "merge", "mute", "unmute")),
    *(("queue", name) for name in ("list", "show", "approve", "reject", "edit", "snooze", "rebase")),
    *(("prompts", name) for name in ("list", "log", "show", "diff", "rollback", "export", "verify")),
]


def test_the_help_has_every_exit_code(invoke: Invoke) -> None:
    text = invoke("--help").stdout
    for code in (0, 1, 2, 3, 4, 5, 6, 7, 130):
        assert re.search(rf"^ +{code}  \w", text, re.MULTILINE), text


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_an_example_in_its_help(invoke: Invoke, command: tuple[str, ...]) -> None:
    text = invoke(*command, "--help").stdout
    assert f"  loopeng {' '.join(command)}" in text.partition("Example:")[2], text


def test_the_list_of_commands_is_complete() -> None:
    from typer.main import get_command

    from loopeng.cli.app import app

    found = set()
    root: Any = get_command(app)
    for name, command in root.commands.items():
        found |= {(name, inner) for inner in command.commands} if hasattr(command, "commands") else {(name,)}
    assert found == set(COMMANDS)


def test_version(invoke: Invoke) -> None:
    assert invoke("--version").stdout.startswith("loopeng ")


@pytest.mark.parametrize("arguments", [("fly",), ("run", "--fly"), ("queue", "fly"), ("queue", "show")])
def test_usage_mistakes_exit_2(invoke: Invoke, arguments: tuple[str, ...]) -> None:
    assert "Usage: " in invoke(*arguments, code=2).stderr


def test_init_writes_a_task_that_checks(tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = invoke("init", "my shop").stdout
    assert "wrote my shop/task.yaml" in text
    assert "cd 'my shop' && loopeng check && loopeng run" in text
    monkeypatch.chdir(tmp_path / "my shop")
    assert "an empty answer passes" not in invoke("check").stdout
    before = Path("task.yaml").read_bytes()
    assert "task.yaml is there already" in invoke("init", code=2).stderr
    assert Path("task.yaml").read_bytes() == before


def test_check_says_what_there_is(shop: Shop, invoke: Invoke) -> None:
    text = invoke("check").stdout
    for part in (
        "samples     15: reflect 5, gate 5, holdout 5",
        "engine      scripted script.yaml",
        "one-sentence (sentences), short (length)",
        "the first sample (p-00) as the model gets it:\n    Describe this product: p-00\n",
        "improvement: reads failures on 5 reflect samples",
        "warning: an empty answer passes 15 of the 15 samples",
    ):
        assert part in text
    assert not shop.db.exists()
    document = json.loads(invoke("check", "--json").stdout)
    assert document["samples"] == {"reflect": 5, "gate": 5, "holdout": 5}


def test_check_sees_splits_that_are_too_small(shop: Shop, invoke: Invoke) -> None:
    rows = [json.loads(line) for line in (shop.folder / "products.jsonl").read_text().splitlines()]
    shop.write("products.jsonl", "".join(json.dumps(row) + "\n" for row in rows[3:7]))
    text = invoke("check").stdout
    assert "2 reflect samples cannot reach improve.min_samples (3)" in text
    assert "2 gate samples can never be evidence of improvement" in text
    assert "no hold-out samples" in text


def test_check_exits_2_on_a_mistake(shop: Shop, invoke: Invoke) -> None:
    shop.change("type: sentences", "type: sentence")
    assert re.search(r"task.yaml:10: .*did you mean 'sentences'", invoke("check", code=2).stderr)
    assert "nowhere" in invoke("check", "nowhere", code=2).stderr


def test_schema_is_json(invoke: Invoke) -> None:
    document = json.loads(invoke("schema").stdout)
    assert {"prompt", "dataset", "evaluators", "pass"} <= document["properties"].keys()


def test_what_nobody_expected_is_one_line_and_a_file(
    shop: Shop, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug\nof ours")

    monkeypatch.setattr("loopeng.runner.run_suite", broken)
    result = invoke("run", code=1)
    match = re.fullmatch(
        r"internal error: ZeroDivisionError: a bug of ours; the traceback is in (\S+) \(or use --debug\)\n",
        result.stderr,
    )
    assert match, result.stderr
    assert "ZeroDivisionError" in Path(match[1]).read_text()


def test_debug_shows_the_traceback(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from loopeng.cli.app import app

    shop.change("max: 1", "maxx: 1")
    shown = CliRunner().invoke(app, ["--debug", "run"], prog_name="loopeng")
    assert (shown.exit_code, "TaskError" in shown.stderr) == (2, True)
    monkeypatch.setenv("LOOPENG_DEBUG", "1")
    assert "Traceback" in CliRunner().invoke(app, ["run"], prog_name="loopeng").stderr


def test_looking_and_checking_load_nothing_heavy(ran: Shop) -> None:
    """One process for all of them: what one loads is there for the next."""
    script = """
import sys
sys.argv = ["loopeng"]
from loopeng.cli import main
for line in ("--help", "check", "schema", "queue list", "runs list", "failures list", "prompts log describe"):
    try:
        main(line.split())
    except SystemExit as stop:
        assert not stop.code, line
    loaded = {name.partition(".")[0] for name in sys.modules} & {"torch", "transformers", "langgraph", "numpy"}
    assert not loaded, (line, loaded)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_models_lists_what_comes_along(invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECDEC_CACHE", str(tmp_path))
    assert re.search(r"^smollm2-135m +embedded ", invoke("models").stdout, re.MULTILINE)
    (only,) = json.loads(invoke("models", "--json").stdout)
    assert only["name"] == "smollm2-135m"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_one_line_and_exit_1() -> None:
    """It was an internal error with a traceback file, and 120 where the rest was flushed at exit."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "loopeng", "schema"],
            env=os.environ | {"PYTHONUNBUFFERED": ""},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1 and "No space left on device: make room" in done.stderr
