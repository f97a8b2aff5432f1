"""Teams: repositories, workspaces, named tokens, and the record of who called what."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "repositories",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("host", sa.Text, nullable=False),  # a path means nothing on another machine
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("host", "path", name="repositories_by_path"),
    )
    op.create_index("repositories_by_age", "repositories", ["created_at", "id"])
    op.create_index("plans_by_repository", "plans", ["repository_path", "created_at"])

    op.create_table(
        "workspaces",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("workflow_id", sa.Text, sa.ForeignKey("plans.id"), nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("repository_path", sa.Text, nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("branch", sa.Text, nullable=False),
        sa.Column("base_branch", sa.Text),
        sa.Column("base_commit", sa.Text),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("merge_commit", sa.Text),
        sa.Column("rescue_branch", sa.Text),  # where work went that was not committed when it was abandoned
        sa.Column("is_made", sa.Boolean, nullable=False),  # by deepwork, which then may remove the tree
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
    )
    op.create_index("workspaces_by_plan", "workspaces", ["workflow_id", "created_at"])
    # Only while it is active does a tree or a branch belong to one workspace.
    active = sa.text("status = 'active'")
    for name, columns in (
        ("workspaces_by_tree", ["host", "path"]),
        ("workspaces_by_branch", ["host", "repository_path", "branch"]),
    ):
        op.create_index(
            name, "workspaces", columns, unique=True, sqlite_where=active, postgresql_where=active
        )
    assigned = sa.text("workspace_id IS NOT NULL")
    op.create_index(
        "plan_tasks_by_workspace",
        "plan_tasks",
        ["workspace_id"],
        sqlite_where=assigned,
        postgresql_where=assigned,
    )

    op.create_table(
        "tokens",
        sa.Column("id", sa.Text, primary_key=True),  # the part of a token that may be shown
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),  # SHA-256 of the secret, which nobody keeps
        sa.Column("scope", sa.Text, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("revoked_at", sa.BigInteger),
        sa.Column("last_used_at", sa.BigInteger),
    )
    valid = sa.text("revoked_at IS NULL")
    op.create_index(
        "tokens_by_name", "tokens", ["name"], unique=True, sqlite_where=valid, postgresql_where=valid
    )

    # A number of its own kind on SQLite, where it then is the row's place and costs no index. There is no
    # other index: every writing call adds a row, and hardly anybody looks for one.
    number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "audit",
        sa.Column("seq", number, primary_key=True, autoincrement=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("account", sa.Text, nullable=False),
        sa.Column("caller", sa.Text, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("tool", sa.Text, nullable=False),
        sa.Column("arguments", sa.Text, nullable=False),  # names and ids, never texts
        sa.Column("digest", sa.Text, nullable=False),  # of all arguments
        sa.Column("outcome", sa.Text, nullable=False),  # `done`, a refusal, or the code of the error
        sa.Column("chain", sa.Text, nullable=False),  # digest of this row and of the one before
    )
    head = op.create_table(
        "audit_head",
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("chain", sa.Text, nullable=False),  # so that rows missing at the end are missed
    )
    op.bulk_insert(head, [{"seq": 0, "chain": ""}])
