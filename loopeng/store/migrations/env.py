"""What alembic runs. The connection comes from ``migrate()``, in a transaction already: all migrations or none."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"])
with context.begin_transaction():
    context.run_migrations()
