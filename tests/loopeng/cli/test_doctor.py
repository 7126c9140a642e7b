"""``loopeng doctor``: every line is looked at, so every line can be wrong."""

from __future__ import annotations

import json
import socket
import sqlite3
import subprocess
import tomllib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from loopeng.doctor import Finding, examine_database, examine_libraries, examine_machine, examine_surroundings
from loopeng.doctor.libraries import Requirement, read_requirement
from loopeng.store import LeaseOwner, LoopStore
from tests.loopeng.cli.conftest import ROOT, Shop

LINES = [
    *("python", "libraries", "extras", "torch", "cache", "model", "sandbox"),
    *("database", "runs", "proposals", "leases", "webhook", "terminal"),
]


def by_name(findings: Any) -> dict[str, Finding]:
    return {each.name: each for each in findings}


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


def test_the_sandbox_tells_every_tier(monkeypatch: pytest.MonkeyPatch) -> None:
    from loopeng.doctor import examine_sandbox
    from loopeng.sandbox import TIERS, tier_states

    found = examine_sandbox()
    strong = [name for name, problem in tier_states().items() if problem is None and name != "subprocess"]
    assert (found.status == "ok") == bool(strong) and (found.remedy is None) == bool(strong)
    assert all(name in found.text for name in TIERS)


def test_what_was_left_behind(ran: Shop) -> None:
    host = socket.gethostname()
    with LoopStore.open(ran.db) as store:
        (run,) = store.runs(kind="suite")
        store.reopen_run(run.id)
        assert store.acquire_lease(f"run:{run.id}", LeaseOwner(host, 2**22 - 1, "before the last start"))
        assert store.acquire_lease("proposal:x", LeaseOwner.current())
    told = by_name(examine_database(ran.db))
    assert told["runs"].status == "warn" and run.id in told["runs"].text
    assert told["leases"].status == "warn"
    assert told["leases"].text == f"left by processes that were killed: run:{run.id}; held: proposal:x"
    with LoopStore.open(ran.db) as store:
        assert store.acquire_lease(f"run:{run.id}", LeaseOwner.current())
    told = by_name(examine_database(ran.db))
    assert (told["runs"].status, told["leases"].status) == ("ok", "ok"), "that run is under way"


def test_a_rescore_that_was_stopped_is_told(ran: Shop) -> None:
    with LoopStore.open(ran.db) as store:
        (run,) = store.runs(kind="suite")
        version, task = store.prompt_version(run.prompt_version_id), store.task(run.task_hash)
        again = store.create_run(kind="rescore", task=task, version=version, seed=0, engine={"rescore_of": run.id})
    told = by_name(examine_database(ran.db))["runs"]
    assert (told.status, told.text) == ("warn", f"not finished: rescore {again.id}")
    assert "rescore RUN --resume" in (told.remedy or "")
    with LoopStore.open(ran.db) as store:
        store.finish_run(again.id, "finished")
    assert by_name(examine_database(ran.db))["runs"].status == "ok"


def test_a_process_on_another_machine_that_went_silent_holds_nothing(ran: Shop) -> None:
    """Nobody here can see whether it lives; its heartbeat says so. Its run is left behind, not under way."""
    with LoopStore.open(ran.db) as store:
        (run,) = store.runs(kind="suite")
        store.reopen_run(run.id)
        assert store.acquire_lease(f"run:{run.id}", LeaseOwner("elsewhere", 7, "long ago"))
    told = by_name(examine_database(ran.db))
    assert (told["runs"].status, told["leases"].text) == ("ok", f"held: run:{run.id}")
    change(ran.db, "UPDATE lease SET heartbeat_at = '2001-01-01T00:00:00.000000+00:00'")
    told = by_name(examine_database(ran.db))
    assert (told["runs"].status, told["leases"].status) == ("warn", "warn")
    assert told["leases"].text == f"left by processes that were killed: run:{run.id}; none is held"


def test_a_proposal_past_its_time_waits_no_more(ran: Shop) -> None:
    assert "waiting for a decision" in by_name(examine_database(ran.db))["proposals"].text
    change(ran.db, "UPDATE proposal SET expires_at = '2001-01-01T00:00:00.000000+00:00'")
    assert by_name(examine_database(ran.db))["proposals"].text == "none is waiting"
    change(ran.db, "UPDATE proposal SET state = 'testing', expires_at = NULL")
    told = by_name(examine_database(ran.db))["proposals"]
    assert told.status == "warn" and told.remedy == "'loopeng work' takes up what was left"


@pytest.mark.parametrize(("schema", "status"), [("0001", "warn"), ("9999", "fail")])
def test_a_database_of_another_schema_is_not_touched(ran: Shop, schema: str, status: str) -> None:
    change(ran.db, f"UPDATE alembic_version SET version_num = '{schema}'")
    (found,) = examine_database(ran.db)
    assert found.status == status and f"schema {schema}" in found.text and found.remedy
    with closing(sqlite3.connect(ran.db)) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchone() == (schema,)


def test_files_that_are_no_database_of_ours(tmp_path: Path) -> None:
    text, other = tmp_path / "text.db", tmp_path / "other.db"
    text.write_text("a text, and long enough to be looked at as a database" * 40)
    change(other, "CREATE TABLE song (name TEXT)")
    for path, told in ((text, "is no SQLite file"), (other, "has a table 'song'")):
        (found,) = examine_database(path)
        assert found.status == "fail" and told in found.text and found.remedy


def test_a_damaged_database_is_found(ran: Shop) -> None:
    with closing(sqlite3.connect(ran.db)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (page,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'ix_run_task_name_kind'"
        ).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    content = bytearray(ran.db.read_bytes())
    content[(page - 1) * size : page * size] = bytes(size)
    ran.db.write_bytes(content)
    found = next(iter(examine_database(ran.db)))
    assert found.status == "fail" and found.remedy == "bring back a copy of it"


def change(db: Path, statement: str) -> None:
    with closing(sqlite3.connect(db)) as connection, connection:
        connection.execute(statement)


def test_every_requirement_of_ours_can_be_read() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = project["dependencies"] + [line for extra in project["optional-dependencies"].values() for line in extra]
    assert all(read_requirement(line).least for line in lines)
    assert project["requires-python"].startswith(">=")
    with pytest.raises(ValueError, match="cannot read"):
        read_requirement("torch @ file:///somewhere")


@pytest.mark.parametrize(
    ("line", "least"),
    [
        ("torch>=2.9,<3", "2.9"),
        ("torch<3,>=2.9", "2.9"),
        ("torch ~= 2.9", "2.9"),
        ("torch!=3.1.*", None),
        ("torch (>=2.9,!=3.0)", "2.9"),
        ("torch==2.9.1+cpu ; extra == 'cpu'", None),
    ],
)
def test_other_bounds_than_the_least_version_are_read_too(line: str, least: str | None) -> None:
    found = read_requirement(line)
    assert (found.name, found.least, found.extra) == ("torch", least, "cpu" if "extra" in line else None)


def test_a_library_is_there_and_new_enough_or_it_is_told() -> None:
    assert Requirement("pydantic", "2").problem is None
    assert Requirement("no-such-library-anywhere", "1").problem == "no-such-library-anywhere is not installed"
    problem = Requirement("pydantic", "99.1").problem
    assert problem is not None and problem.startswith("pydantic 2.") and problem.endswith("older than 99.1")
    told = by_name(examine_libraries())
    assert told["python"].status == "ok" and "needs 3.11 or later" in told["python"].text


def test_a_damaged_model_and_a_cache_that_takes_nothing_are_in_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from specdec_core.cache_dir import build_once
    from specdec_core.embedded import EMBEDDED_MODELS

    cache = tmp_path / "cache"
    monkeypatch.setenv("SPECDEC_CACHE", str(cache))
    monkeypatch.setenv("PYTHONPATH", str(fake_torch(tmp_path)))  # torch is not what is looked at here

    def build(folder: Path) -> dict[str, Any]:
        (folder / "model.safetensors").write_bytes(b"weights")
        return {}

    model = EMBEDDED_MODELS["smollm2-135m"]
    weights = build_once(f"{model.name}-{model.sha256[:12]}", build) / "model.safetensors"
    assert by_name(examine_machine())["model"].status == "ok"
    weights.write_bytes(b"wEights")
    told = by_name(examine_machine())["model"]
    assert told.status == "fail" and told.remedy == f"remove {weights.parent}"
    monkeypatch.setenv("SPECDEC_CACHE", str(weights))
    told = by_name(examine_machine())["cache"]
    assert told.status == "fail" and "not writable" in told.text


def fake_torch(folder: Path) -> Path:
    (folder / "fake").mkdir()
    (folder / "fake" / "torch.py").write_text("raise ImportError('none')")
    return folder / "fake"


@pytest.mark.parametrize(
    ("secret", "status"), [(None, "ok"), ("whsec_c2VjcmV0", "ok"), ("whsec_not base64", "warn"), (" ", "warn")]
)
def test_the_secret_of_the_webhook(monkeypatch: pytest.MonkeyPatch, secret: str | None, status: str) -> None:
    monkeypatch.delenv("LOOPENG_WEBHOOK_SECRET", raising=False)
    if secret is not None:
        monkeypatch.setenv("LOOPENG_WEBHOOK_SECRET", secret)
    told = by_name(examine_surroundings("utf-8"))
    assert (told["webhook"].status, told["terminal"].status) == (status, "ok")
    assert secret is None or secret.strip() == "" or secret not in str(told["webhook"])
