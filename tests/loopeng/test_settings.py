"""The environment's values, and who wins: argument, then variable, then default."""

from __future__ import annotations

import getpass
from pathlib import Path

import pytest
from pydantic import ValidationError

from loopeng.errors import UsageError
from loopeng.settings import LiveSettings, Settings, read_live_settings, read_settings


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOOPENG_DB", "LOOPENG_USER", "LOOPENG_QUIET"):
        monkeypatch.delenv(name, raising=False)


def test_the_database_lies_beside_the_task_file() -> None:
    assert read_settings().database("shop/task.yaml") == Path("shop/.loopeng/loop.db")
    assert read_settings().database() == Path(".loopeng/loop.db")


def test_a_variable_beats_the_default_and_an_argument_beats_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPENG_DB", "all.db")
    assert read_settings().database("shop/task.yaml") == Path("all.db")
    assert read_settings().database("shop/task.yaml", "mine.db") == Path("mine.db")


def test_an_empty_variable_is_no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPENG_DB", "")
    monkeypatch.setenv("LOOPENG_QUIET", "")
    assert read_settings() == Settings()


def test_a_variable_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPENG_QUIET", "perhaps")
    with pytest.raises(UsageError, match="LOOPENG_QUIET='perhaps'"):
        read_settings()


def test_who_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "login")
    assert read_settings().person() == "login"
    monkeypatch.setenv("LOOPENG_USER", "ana")
    assert read_settings().person() == "ana"
    assert read_settings().person(" ben ") == "ben"


def test_nobody_decides_anonymously(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_account() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr(getpass, "getuser", no_account)
    with pytest.raises(UsageError, match="--by NAME"):
        read_settings().person()
    with pytest.raises(UsageError, match="--by NAME"):
        read_settings().person("  ")


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Settings().quiet = True  # type: ignore[misc]


def test_how_traffic_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_live_settings() == LiveSettings()
    monkeypatch.setenv("LOOPENG_LIVE_KEEP_DAYS", "30")
    monkeypatch.setenv("LOOPENG_LIVE_REDACT", r'["\\d{16}", "sk-\\w+"]')
    monkeypatch.setenv("LOOPENG_LIVE_SAMPLE_RATE", "0.1")
    settings = read_live_settings()
    assert (settings.keep_days, settings.sample_rate) == (30, 0.1)
    assert settings.redact == (r"\d{16}", r"sk-\w+")
    assert LiveSettings(sample_rate=1.0).sample_rate == 1.0  # an argument wins


@pytest.mark.parametrize(
    ("name", "value"),
    [("SAMPLE_RATE", "2"), ("KEEP_DAYS", "soon"), ("REDACT", "secret"), ("REDACT", '["("]'), ("KEEP_SAMPLES", "0")],
)
def test_a_live_variable_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"LOOPENG_LIVE_{name}", value)
    with pytest.raises(UsageError, match=f"LOOPENG_LIVE_{name}"):
        read_live_settings()
