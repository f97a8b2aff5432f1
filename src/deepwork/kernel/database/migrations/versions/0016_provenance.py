"""Commit links: which commits and which changes a task made, and how that is known."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    op.add_column("watches", sa.Column("agent_id", sa.Text))  # who held the task when it was watched
    op.create_table(
        "commit_links",
        sa.Column("task_id", sa.Text, primary_key=True),  # planned or tracked, or SESSION/STEP of a job
        sa.Column("commit_hash", sa.Text, primary_key=True),  # empty: the work of the task as a whole
        sa.Column("tree_before", sa.Text, primary_key=True),  # of the first parent; empty if unknown
        sa.Column("tree", sa.Text, primary_key=True),
        sa.Column("known_by", sa.Text, primary_key=True),  # runner, watched, landing
        sa.Column("patch_id", sa.Text),
        sa.Column("workflow_id", sa.Text),
        sa.Column("attempt_id", sa.Text),
        sa.Column("agent_id", sa.Text),
        sa.Column("is_likely", sa.BigInteger, nullable=False, server_default="0"),  # 1: another task may have
        sa.Column("recorded_at", sa.BigInteger, nullable=False),
    )
    op.create_index("commit_links_by_commit", "commit_links", ["commit_hash"])
    op.create_index("commit_links_by_tree", "commit_links", ["tree"])
    op.create_index("commit_links_by_patch", "commit_links", ["patch_id"])
