"""What people want done, in their words, and the plan that is made of it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    op.create_table(
        "wishes",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("source_ref", sa.Text),
        sa.Column("repository_path", sa.Text, nullable=False),
        sa.Column("plan_id", sa.Text, nullable=False, unique=True),
        sa.Column("planning_id", sa.Text, unique=True),  # the plan whose task is planning
        sa.Column("branch", sa.Text, nullable=False),
        sa.Column("options", sa.Text, nullable=False),  # as JSON
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("returned_plan", sa.Text),  # what was wrong with the plan that went back
        sa.Column("started_at", sa.BigInteger),
        sa.Column("review_tasks", sa.Text, nullable=False, server_default="[]"),
        sa.Column("findings", sa.Text, nullable=False, server_default="[]"),
    )
    op.create_index("wishes_by_repository", "wishes", ["repository_path", "created_at"])
