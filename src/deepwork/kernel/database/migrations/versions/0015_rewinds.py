"""Rewinds of tasks: their journal, the tasks that build on rewound work, and trees of checkpoints."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    op.create_table(
        "rewinds",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("workflow_id", sa.Text, nullable=False),
        sa.Column("task_id", sa.Text, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),  # of the task, from 1
        sa.Column("undoes", sa.Text),  # the rewind that this one undoes
        sa.Column("undone_by", sa.Text),
        sa.Column("target", sa.Text, nullable=False),  # start, attempt:N, checkpoint:N
        sa.Column("dependents", sa.Text, nullable=False),  # reset, keep
        sa.Column("stage", sa.Text, nullable=False),  # planned, rescued, files, state, done, cancelled
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),  # of what the person saw
        sa.Column("steps", sa.Text, nullable=False),  # what happens to trees, branches and tasks, as JSON
        sa.Column("results", sa.Text, nullable=False),  # what the stages so far led to, as JSON
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("ended_at", sa.BigInteger),
        sa.UniqueConstraint("task_id", "number"),
    )
    op.create_index("rewinds_by_age", "rewinds", ["created_at", "id"])
    is_open = sa.text("ended_at IS NULL")
    op.create_index(  # one after another
        "rewinds_open", "rewinds", ["task_id"], unique=True, sqlite_where=is_open, postgresql_where=is_open
    )
    op.create_table(
        "rewind_tasks",
        sa.Column("rewind_id", sa.Text, sa.ForeignKey("rewinds.id"), primary_key=True),
        sa.Column("task_id", sa.Text, primary_key=True),
        sa.Column("role", sa.Text, nullable=False),  # rewound, reset, stale
        sa.Column("first_attempt", sa.BigInteger, nullable=False),  # the attempts that went back
        sa.Column("last_attempt", sa.BigInteger, nullable=False),
        sa.Column("checkpoint", sa.BigInteger),  # the first attempt went back to this checkpoint only
        sa.Column("state_before", sa.Text),  # of the task, with its outcome, as JSON
        sa.Column("state_after", sa.Text),
    )
    op.create_index("rewind_tasks_by_task", "rewind_tasks", ["task_id"])
    op.create_table(
        "checkpoint_trees",
        sa.Column("checkpoint_id", sa.Text, primary_key=True),
        sa.Column("task_id", sa.Text, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("attempt", sa.BigInteger, nullable=False),  # of the watch
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("tree_path", sa.Text, nullable=False),
        sa.Column("snapshot", sa.Text, nullable=False),  # as JSON
        sa.Column("taken_at", sa.BigInteger, nullable=False),  # nanoseconds on the clock of the host
    )
    op.create_index("checkpoint_trees_by_task", "checkpoint_trees", ["task_id", "sequence"])
    op.create_index("checkpoint_trees_by_tree", "checkpoint_trees", ["host", "tree_path", "taken_at"])
    op.add_column("plan_tasks", sa.Column("stale_input", sa.Text))  # what it builds on was rewound; JSON
