"""What people did with entries of the inbox that they did not decide: later, cleared, given to somebody."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    op.create_table(
        "inbox_marks",
        sa.Column("item", sa.Text, primary_key=True),  # kind:id of the entry
        sa.Column("seen_since", sa.BigInteger, nullable=False),  # since when it had waited when it was marked
        sa.Column("snoozed_until", sa.BigInteger),
        sa.Column("cleared_at", sa.BigInteger),
        sa.Column("owner", sa.Text),  # human:NAME, or the id of an agent
        sa.Column("note", sa.Text),
        sa.Column("marked_by", sa.Text, nullable=False),
        sa.Column("marked_at", sa.BigInteger, nullable=False),
    )
