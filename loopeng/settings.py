"""What the environment says: ``LOOPENG_DB``, ``LOOPENG_USER``, ``LOOPENG_QUIET``, ``LOOPENG_LIVE_...``.

A flag or argument always wins.
"""

from __future__ import annotations

import getpass
import re
from collections.abc import Callable
from pathlib import Path

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from loopeng.errors import UsageError

__all__ = ["DATABASE_PATH", "LiveSettings", "Settings", "read_live_settings", "read_settings"]

DATABASE_PATH = Path(".loopeng") / "loop.db"


class Settings(BaseSettings):
    """Frozen values of one moment; ``read_settings()`` makes them.

    >>> Settings(user="ana").person(), Settings(user="ana").person("ben")
    ('ana', 'ben')
    >>> Settings(db=None).database("shop/task.yaml").as_posix()
    'shop/.loopeng/loop.db'
    """

    model_config = SettingsConfigDict(env_prefix="LOOPENG_", env_ignore_empty=True, frozen=True, extra="forbid")

    db: Path | None = None  # the database file, for every task
    user: str | None = None  # who decides
    quiet: bool = False  # no progress on stderr

    def database(self, task_path: str | Path | None = None, chosen: str | Path | None = None) -> Path:
        """The database file: the one chosen, else ``LOOPENG_DB``, else ``.loopeng/loop.db`` beside the task file.

        Without a task file the place is the current folder.
        """
        if chosen is not None:
            return Path(chosen)
        if self.db is not None:
            return self.db
        return (Path(task_path).parent if task_path is not None else Path()) / DATABASE_PATH

    def person(self, chosen: str | None = None) -> str:
        """Who decides: the one named, else ``LOOPENG_USER``, else the login name. Nobody decides anonymously."""
        name = (chosen or self.user or _login_name() or "").strip()
        if not name:
            raise UsageError("who decides? name a person with --by NAME, or set LOOPENG_USER")
        return name


class LiveSettings(BaseSettings):
    """How an application's traffic is recorded. What is not given comes from ``LOOPENG_LIVE_...``, else the default.

    >>> LiveSettings(keep_days=30, redact=[r"\\d{16}"]).keep_days
    30.0
    """

    model_config = SettingsConfigDict(env_prefix="LOOPENG_LIVE_", env_ignore_empty=True, frozen=True, extra="forbid")

    record: bool = Field(True, description="Whether calls are recorded at all; they are answered anyway.")
    sample_rate: float = Field(1.0, ge=0, le=1, description="The share of calls that is recorded.")
    keep_days: float | None = Field(None, gt=0, description="Texts of calls are purged after so many days.")
    keep_samples: int | None = Field(None, ge=1, description="Texts of the newest inputs of a prompt are kept.")
    redact: tuple[str, ...] | Callable[[str], str] = Field(
        (), description="Regular expressions of what is never recorded, or a function from text to text."
    )
    head_seconds: float = Field(3.0, ge=0, description="How long a prompt's head is used before it is read again.")
    patience_seconds: float = Field(1.0, ge=0, description="How long a call waits for a database that is locked.")
    retry_seconds: float = Field(5.0, ge=0, description="How long a database that failed is left alone.")
    buffer_calls: int = Field(1000, ge=0, description="Calls that wait in memory for a database that is away.")

    @field_validator("redact")
    @classmethod
    def _regexes(cls, value: tuple[str, ...] | Callable[[str], str]) -> tuple[str, ...] | Callable[[str], str]:
        for pattern in () if callable(value) else value:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error
        return value


def read_live_settings() -> LiveSettings:
    """Read the environment now. Raises UsageError naming the variable that cannot be read."""
    try:
        return LiveSettings()
    except ValidationError as error:
        first = error.errors()[0]
        variable = f"LOOPENG_LIVE_{first['loc'][0]}".upper()
        raise UsageError(f"{variable}={first['input']!r}: {first['msg']}") from error
    except SettingsError as error:
        raise UsageError(f"LOOPENG_LIVE_REDACT: write a JSON list of regular expressions ({error})") from error


def read_settings() -> Settings:
    """Read the environment now. Raises UsageError naming the variable that cannot be read."""
    try:
        return Settings()
    except ValidationError as error:
        first = error.errors()[0]
        variable = "LOOPENG_" + "_".join(str(part) for part in first["loc"]).upper()
        raise UsageError(f"{variable}={first['input']!r}: {first['msg']}") from error


def _login_name() -> str | None:
    try:
        return getpass.getuser()
    except (KeyError, ImportError, OSError):  # no such account, as in some containers
        return None
