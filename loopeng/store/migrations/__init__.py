"""Numbered migrations; a database moves to the newest when it is opened, and only forward.

To change the schema: change ``tables.py``, add ``versions/v<number>_<what>.py``, and set ``NEWEST``.
"""

from __future__ import annotations

import threading
from pathlib import Path

from sqlalchemy import Connection, Engine, inspect

from loopeng.errors import StoreError, WrongDatabaseError

__all__ = ["NEWEST", "migrate", "schema_version"]

NEWEST = "0004"
_one_at_a_time = threading.Lock()  # alembic keeps what it works on in a global


def migrate(engine: Engine) -> None:
    """Bring a database to the newest schema.

    ``engine`` begins its transactions with BEGIN IMMEDIATE: of two processes that open a new file at once, one waits
    and finds it done. Raises StoreError for a schema of a newer loopeng, WrongDatabaseError for another program's
    database.
    """
    with engine.execution_options(begin="BEGIN").connect() as connection:
        if schema_version(connection) == NEWEST:
            return
    with engine.begin() as connection:
        version = schema_version(connection)
        if version != NEWEST:
            _upgrade(connection, version)


def schema_version(connection: Connection) -> str | None:
    """The number of a database's schema; None for an empty file. Raises WrongDatabaseError for another program's."""
    tables = inspect(connection).get_table_names()
    if "alembic_version" in tables:
        return connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    if tables:
        raise WrongDatabaseError(f"{_path(connection)} is not a loopeng database: it has a table {tables[0]!r}")
    return None


def _path(connection: Connection) -> object:
    return connection.engine.get_execution_options().get("path", connection.engine.url.database)


def _upgrade(connection: Connection, version: str | None) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if version is not None and version not in known:
        raise StoreError(
            f"{_path(connection)} was written by a newer loopeng (schema {version}, here {NEWEST}): upgrade loopeng"
        )
    with _one_at_a_time:
        command.upgrade(config, NEWEST)
