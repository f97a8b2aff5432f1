"""Notices: what a person did, for the agents or the work that it concerns."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.create_table(
        "notices",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("by_whom", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        # Without an agent, it is for the sessions that work on the workflow: tracked work has no agents.
        sa.Column("agent_id", sa.Text, sa.ForeignKey("agents.id")),
        sa.Column("workflow_id", sa.Text),  # a plan, a tracked workflow or a job session
        sa.Column("task_id", sa.Text),
        sa.Column("about", sa.Text),  # an issue or a message
        sa.Column("carried_at", sa.BigInteger),
        sa.Column("created_seq", sa.BigInteger),
    )
    op.create_index("notices_by_creation", "notices", ["created_seq"], unique=True)
    op.create_index("notices_by_age", "notices", ["at"])
    op.create_index("notices_by_agent", "notices", ["agent_id", "carried_at"])
    op.create_index("notices_by_workflow", "notices", ["workflow_id", "carried_at"])
    op.create_index("notices_by_subject", "notices", ["about"])
    if op.get_context().dialect.name == "sqlite":
        op.execute(
            "CREATE TRIGGER notices_creation AFTER INSERT ON notices WHEN NEW.created_seq IS NULL BEGIN"
            " UPDATE notices"
            " SET created_seq = 1 + max(0, (SELECT coalesce(max(created_seq), 0) FROM notices))"
            " WHERE rowid = NEW.rowid; END"
        )
    else:
        op.alter_column(
            "notices", "created_seq", nullable=False, server_default=sa.text("nextval('creation_order')")
        )
