"""Run by Alembic: migrate on the connection that `schema.migrate` holds."""

from __future__ import annotations

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    transactional_ddl=True,  # on SQLite too: it can, and a migration is whole or absent
    transaction_per_migration=False,
)
with context.begin_transaction():
    context.run_migrations()
