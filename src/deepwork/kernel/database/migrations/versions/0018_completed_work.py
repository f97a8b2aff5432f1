"""Which files a task was completed with, and one lease per branch for all machines."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    # Of tasks that were completed before, this is not known: they are completed again before they land.
    op.add_column("plan_tasks", sa.Column("completed_tree", sa.Text))
    op.add_column("plan_tasks", sa.Column("completed_head", sa.Text))
    # Leases last for seconds, and a process of an older version cannot use the new table: none is kept.
    op.drop_table("branch_leases")
    op.create_table(
        "branch_leases",
        sa.Column("repository", sa.Text, primary_key=True),  # the first commit, the same in all its clones
        sa.Column("branch", sa.Text, primary_key=True),
        sa.Column("holder", sa.Text),
        sa.Column("epoch", sa.BigInteger, nullable=False),  # grows with each holder
        sa.Column("until", sa.BigInteger, nullable=False),
    )
