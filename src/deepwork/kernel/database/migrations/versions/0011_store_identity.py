"""Which store this is, and its key; the tokens of PostgreSQL get digests with that key.

Tokens in a SQLite file keep their digests here: such a file must be adopted, which revokes them.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import context, op

from deepwork.kernel.database.store_key import create_store_key, expose_key

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    table = op.create_table(
        "store_identity",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("secret", sa.Text, nullable=False),  # the key; in a file sealed with the user's key
        sa.Column("keyed_from", sa.BigInteger, nullable=False),  # the first audit entry chained with the key
        sa.Column("mark", sa.Text, nullable=False),
    )
    if op.get_context().dialect.name == "sqlite":
        return
    op.execute("REVOKE ALL ON store_identity FROM PUBLIC")
    if not context.is_offline_mode():  # a new database gets its key when it is created
        _create_key(table)


def _create_key(table: sa.Table) -> None:
    connection = op.get_bind()
    last = connection.execute(sa.text("SELECT seq FROM audit_head")).scalar_one()
    key = create_store_key(keyed_from=int(last) + 1)
    op.bulk_insert(table, [vars(expose_key(key))])
    for id, digest in connection.execute(sa.text("SELECT id, digest FROM tokens")).all():
        changed = {"id": id, "digest": key.compute_digest(f"token:{digest}")}
        connection.execute(sa.text("UPDATE tokens SET digest = :digest WHERE id = :id"), changed)
