"""Comments of people on lines of the work of tasks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    op.create_table(
        "review_comments",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("task_id", sa.Text, nullable=False),
        sa.Column("workflow_id", sa.Text, nullable=False),
        sa.Column("attempt_id", sa.Text),  # the attempt of a run whose work it is about
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("side", sa.Text, nullable=False),  # old, new
        sa.Column("line", sa.BigInteger, nullable=False),
        sa.Column("line_text", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("tree", sa.Text, nullable=False),  # the files of the task, as they were then
        sa.Column("by_whom", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("sent_at", sa.BigInteger),  # to the agents of the task
        sa.Column("notice_id", sa.Text),  # what carries it to them; notices are deleted after some time
        sa.Column("closed_as", sa.Text),  # fixed, withdrawn
        sa.Column("closed_by", sa.Text),
        sa.Column("closed_at", sa.BigInteger),
        sa.Column("created_seq", sa.BigInteger),
    )
    op.create_index("review_comments_by_creation", "review_comments", ["created_seq"], unique=True)
    op.create_index("review_comments_by_task", "review_comments", ["task_id", "created_seq"])
    if op.get_context().dialect.name == "sqlite":
        op.execute(
            "CREATE TRIGGER review_comments_creation AFTER INSERT ON review_comments"
            " WHEN NEW.created_seq IS NULL BEGIN UPDATE review_comments"
            " SET created_seq = 1 + max(0, (SELECT coalesce(max(created_seq), 0) FROM review_comments))"
            " WHERE rowid = NEW.rowid; END"
        )
    else:
        op.alter_column(
            "review_comments",
            "created_seq",
            nullable=False,
            server_default=sa.text("nextval('creation_order')"),
        )
