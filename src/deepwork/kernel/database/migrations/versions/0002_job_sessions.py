"""Job sessions as the dashboard sees them, and reviews that need not be made again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "job_sessions",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("job_name", sa.Text, nullable=False),
        sa.Column("workflow_name", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("step_id", sa.Text, nullable=False),
        sa.Column("generation", sa.BigInteger, nullable=False),  # of the session's file, which is the truth
        sa.Column("started_at", sa.Text, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("data", sa.Text, nullable=False),
    )
    op.create_index("job_sessions_by_status", "job_sessions", ["status", "updated_at"])
    op.create_table(
        "passed_reviews",
        sa.Column("mark", sa.Text, primary_key=True),
        sa.Column("passed_at", sa.BigInteger, nullable=False),
    )
