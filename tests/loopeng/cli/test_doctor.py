"""``loopeng doctor``: every line is there, and one that fails does not keep the others from being told."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.loopeng.cli.conftest import ROOT, Shop

LINES = [
    *("python", "libraries", "extras", "torch", "cache", "model", "sandbox"),
    *("database", "runs", "proposals", "leases", "webhook", "terminal"),
]


def test_all_lines_of_a_folder_with_a_database(ran: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The device is the real one; the cache folder is empty, so that no large file is read."""
    from loopeng.cli.app import app

    monkeypatch.setenv("SPECDEC_CACHE", str(ran.folder / "cache"))
    result = CliRunner().invoke(app, ["doctor", "--json"], prog_name="loopeng")
    found = json.loads(result.stdout)
    assert [each["name"] for each in found] == LINES
    assert result.exit_code == (1 if any(each["status"] == "fail" for each in found) else 0)
    told = {each["name"]: each for each in found}
    assert told["torch"]["status"] in ("ok", "warn") and "passes of" in told["torch"]["text"]
    assert told["model"]["status"] == "warn" and "specdec fetch smollm2-135m" in told["model"]["remedy"]
    assert told["database"]["status"] == "ok" and told["database"]["text"].endswith("journal wal")
    assert "waiting for a decision: prop-" in told["proposals"]["text"]
    assert all(each["remedy"] for each in found if each["status"] != "ok")
    assert not (ran.folder / "cache").exists()


@pytest.mark.parametrize(
    ("torch", "told"),
    [
        ("raise ImportError('no libcudart.so.12')", "torch cannot be used: ImportError: no libcudart.so.12"),
        ("import os; os._exit(3)", "torch cannot be used: exit status 3"),
    ],
)
def test_a_torch_that_cannot_be_loaded_fails_and_the_rest_is_still_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    started: Callable[..., subprocess.Popen[str]],
    torch: str,
    told: str,
) -> None:
    """As users start it, in a terminal that knows only ASCII."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fake").mkdir()
    (tmp_path / "fake" / "torch.py").write_text(torch)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'fake'}:{ROOT}")
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    monkeypatch.setenv("SPECDEC_CACHE", str(tmp_path / "cache"))
    process = started("doctor")
    text, _ = process.communicate()
    assert process.returncode == 1
    assert f"fail  torch       {told}\n{'':18}-> " in text
    assert "warn  terminal    output is ascii" in text and "-> set PYTHONUTF8=1" in text
    assert "ok    database    none here yet" in text


def test_a_database_that_was_named_and_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from loopeng.cli import doctor

    monkeypatch.chdir(tmp_path)
    (found,) = doctor._database(tmp_path / "no.db")
    assert found.status == "warn" and "there is no database" in found.text
    monkeypatch.setenv("LOOPENG_DB", "gone.db")
    (found,) = doctor._database(None)
    assert found.status == "warn" and "LOOPENG_DB" in found.text
