"""Landings: work that is merged into a branch, tested, and moves the branch."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    _create_landings()
    _fill_creation_order()
    _create_branch_leases()


def _create_landings() -> None:
    op.create_table(
        "landings",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),  # a task's branch, or a prepared commit
        sa.Column("subject_id", sa.Text, nullable=False),  # the task, or what the commit was prepared for
        sa.Column("workflow_id", sa.Text),
        sa.Column("task_id", sa.Text),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("repository_path", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("branch", sa.Text),  # the one that is moved: the target, or an integration branch
        sa.Column("source_branch", sa.Text),
        sa.Column("source_commit", sa.Text),
        sa.Column("base_commit", sa.Text),  # where the branch was; NULL if it did not exist
        sa.Column("merge_commit", sa.Text),
        sa.Column("merge_tree", sa.Text),
        sa.Column("branch_commit", sa.Text),  # where the branch is moved to, with the others of its batch
        sa.Column("attempt_id", sa.Text),
        sa.Column("agent_id", sa.Text),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("problem", sa.Text),  # conflict, red, refused, ...
        sa.Column("reason", sa.Text),
        sa.Column("returns", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("done_at", sa.BigInteger, nullable=False),  # when the task was done: the oldest is first
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("ended_at", sa.BigInteger),
        sa.Column("created_seq", sa.BigInteger),
    )
    is_open = sa.text("ended_at IS NULL")
    op.create_index(  # one at a time for each task
        "landings_open_subject",
        "landings",
        ["subject_id"],
        unique=True,
        sqlite_where=is_open,
        postgresql_where=is_open,
    )
    op.create_index(
        "landings_open_by_target",
        "landings",
        ["host", "repository_path", "target"],
        sqlite_where=is_open,
        postgresql_where=is_open,
    )
    op.create_index("landings_by_subject", "landings", ["subject_id"])
    op.create_index("landings_by_workflow", "landings", ["workflow_id"])
    op.create_index("landings_by_age", "landings", ["created_at", "created_seq"])
    op.create_index("landings_by_creation", "landings", ["created_seq"], unique=True)


def _fill_creation_order() -> None:
    if op.get_context().dialect.name == "sqlite":
        op.execute(
            "CREATE TRIGGER landings_creation AFTER INSERT ON landings WHEN NEW.created_seq IS NULL BEGIN"
            " UPDATE landings"
            " SET created_seq = 1 + max(0, (SELECT coalesce(max(created_seq), 0) FROM landings))"
            " WHERE rowid = NEW.rowid; END"
        )
    else:
        op.alter_column(
            "landings", "created_seq", nullable=False, server_default=sa.text("nextval('creation_order')")
        )


def _create_branch_leases() -> None:
    op.create_table(
        "branch_leases",
        sa.Column("host", sa.Text, primary_key=True),
        sa.Column("repository_path", sa.Text, primary_key=True),
        sa.Column("branch", sa.Text, primary_key=True),
        sa.Column("holder", sa.Text),
        sa.Column("epoch", sa.BigInteger, nullable=False),  # grows with each holder
        sa.Column("until", sa.BigInteger, nullable=False),
    )
