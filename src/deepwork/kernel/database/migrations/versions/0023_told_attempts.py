"""Which attempt of a run, and which of its starts, heard a notice; and who wants to interrupt an agent."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    op.add_column("notices", sa.Column("attempt_id", sa.Text))
    op.add_column("notices", sa.Column("start", sa.BigInteger))
    op.create_index("notices_by_task", "notices", ["task_id", "carried_at"])
    op.add_column("attempts", sa.Column("interrupted_by", sa.Text))  # who wants to be heard at once
