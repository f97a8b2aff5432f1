"""The seal of the list of enrolled proofs, and an index of what the audit log says about approvals.

Without it, a store from which all enrolled proofs were deleted would look like one that never had any. The
mark of a SQLite store says that it has seals: setting the version back does not let migrations seal forged
rows again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import context, op

from deepwork.kernel.database.seals import (
    LISTED_TABLES,
    SEALED_COLUMNS,
    compute_list_seal,
    compute_seal,
    require_own_mark,
)
from deepwork.kernel.database.store_key import (
    COLUMNS,
    StoreKey,
    get_or_create_user_key,
    parse_identity,
    read_exposed_key,
    seal_key,
)
from deepwork.kernel.errors import DeepworkError

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    op.create_table(  # without a primary key, like other counters: a store that has only these rows is empty
        "sealed_lists",
        sa.Column("kind", sa.Text, nullable=False),  # the table
        sa.Column("seal", sa.Text, nullable=False),
    )
    # What the log says about an approval, whose id is the first argument of these calls.
    is_about_approval = sa.text("tool IN ('give_approval', 'refuse_approval', 'use_approval')")
    op.create_index(
        "ix_audit_approvals",
        "audit",
        [sa.text("substr(arguments, 1, 32)")],
        sqlite_where=is_about_approval,
        postgresql_where=is_about_approval,
    )
    key = None if context.is_offline_mode() else _find_key()
    if key is None:  # a new store, or one of another user: adopting it forgets all that could be sealed
        return
    connection = op.get_bind()
    for table in LISTED_TABLES:
        ids = connection.execute(sa.text(f"SELECT id FROM {table}")).scalars().all()
        connection.execute(
            sa.text("INSERT INTO sealed_lists (kind, seal) VALUES (:kind, :seal)"),
            {"kind": table, "seal": compute_list_seal(key, table, ids)},
        )
    _seal_pending(key)
    if connection.dialect.name == "sqlite":
        mark = seal_key(key, get_or_create_user_key()).mark
        connection.execute(sa.text("UPDATE store_identity SET mark = :mark"), {"mark": mark})


def _seal_pending(key: StoreKey) -> None:
    """Seal what people were asked: from now on they decide only about what has a seal."""
    connection = op.get_bind()
    columns = ", ".join(("id", *SEALED_COLUMNS["approvals"]))
    rows = connection.execute(sa.text(f"SELECT {columns} FROM approvals WHERE status = 'pending'"))
    for row in map(dict, rows.mappings().all()):
        values = {"id": row["id"], "seal": compute_seal(key, "approvals", row)}
        connection.execute(
            sa.text("DELETE FROM seals WHERE kind = 'approvals' AND id = :id"), {"id": row["id"]}
        )
        connection.execute(
            sa.text("INSERT INTO seals (kind, id, seal) VALUES ('approvals', :id, :seal)"), values
        )


def _find_key() -> StoreKey | None:
    connection = op.get_bind()
    row = connection.execute(sa.text(f"SELECT {', '.join(COLUMNS)} FROM store_identity")).mappings().first()
    if row is None:
        return None
    identity = parse_identity(dict(row))
    if connection.dialect.name != "sqlite":
        return read_exposed_key(identity)
    try:
        return require_own_mark(identity, "The store")
    except DeepworkError:
        return None
