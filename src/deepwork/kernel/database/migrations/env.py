"""Run by Alembic: migrate on the connection that `schema.migrate` holds."""

from __future__ import annotations

from alembic import context

# With a dialect's name instead of a connection, the statements are written out (`make schema`).
attributes = context.config.attributes
context.configure(
    connection=attributes.get("connection"),
    dialect_name=attributes.get("dialect_name"),
    transactional_ddl=True,  # on SQLite too: it can, and a migration is whole or absent
    transaction_per_migration=False,
)
with context.begin_transaction():
    context.run_migrations()
