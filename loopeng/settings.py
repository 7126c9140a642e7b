"""What the environment says: ``LOOPENG_DB``, ``LOOPENG_USER``, ``LOOPENG_QUIET``. A flag or argument always wins."""

from __future__ import annotations

import getpass
from pathlib import Path

from pydantic import ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from loopeng.errors import UsageError

__all__ = ["DATABASE_PATH", "Settings", "read_settings"]

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
