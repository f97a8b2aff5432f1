"""How often a task failed and may fail before it waits for a person; what a workspace's branch builds on."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column("plan_tasks", sa.Column("failures", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("plan_tasks", sa.Column("max_attempts", sa.BigInteger, nullable=False, server_default="3"))
    # Lists of branches as JSON: they are only shown.
    op.add_column("workspaces", sa.Column("builds_on", sa.Text))
    op.add_column("workspaces", sa.Column("unmerged", sa.Text))
