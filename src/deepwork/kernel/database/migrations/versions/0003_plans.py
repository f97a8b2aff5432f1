"""Plans: workflows, their tasks and what these wait for, checkpoints, templates, and words to find them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "plans",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("source_type", sa.Text, nullable=False),
        sa.Column("source_ref", sa.Text),
        sa.Column("source_content", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("plan_summary", sa.Text),
        sa.Column("initial_plan", sa.Text),
        sa.Column("repository_path", sa.Text),
        sa.Column("max_parallel_tasks", sa.BigInteger, nullable=False),
        sa.Column("auto_create_workspaces", sa.Boolean, nullable=False),
        sa.Column("file_conflicts", sa.Text, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        # How many tasks were completed and how long that took, so that nobody has to add it up again.
        sa.Column("completed_tasks", sa.BigInteger, nullable=False),
        sa.Column("completed_ms", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
    )
    op.create_index("plans_by_age", "plans", ["created_at", "id"])
    op.create_index("plans_by_status", "plans", ["status", "created_at"])

    op.create_table(
        "plan_tasks",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("workflow_id", sa.Text, sa.ForeignKey("plans.id"), nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("parallel_group", sa.Text),
        sa.Column("is_explicit", sa.Boolean, nullable=False),  # whether it names what it waits for
        sa.Column("open_dependencies", sa.BigInteger, nullable=False),  # of those it names
        sa.Column("claimed_by", sa.Text),  # whose lease it was last; `leases` tells whether it still runs
        sa.Column("plan", sa.Text),
        sa.Column("context", sa.Text, nullable=False),
        sa.Column("outcome", sa.Text),
        sa.Column("outcome_detail", sa.Text),
        sa.Column("error", sa.Text),
        sa.Column("attempts", sa.BigInteger, nullable=False),
        sa.Column(
            "checkpoints", sa.BigInteger, nullable=False
        ),  # how many; the next one gets the next number
        sa.Column("workspace_id", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("started_at", sa.BigInteger),
        sa.Column("finished_at", sa.BigInteger),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("workflow_id", "name", name="plan_tasks_by_name"),
    )
    # Holds all that progress and readiness ask for, so that 10,000 tasks are counted without being read.
    op.create_index(
        "plan_tasks_in_order",
        "plan_tasks",
        ["workflow_id", "status", "sequence", "position", "claimed_by", "is_explicit", "open_dependencies"],
    )
    op.create_index("plan_tasks_by_level", "plan_tasks", ["workflow_id", "sequence", "position", "status"])
    _create_index_of_some(
        "plan_tasks_by_group", ["workflow_id", "parallel_group", "status"], "parallel_group"
    )
    _create_index_of_some("plan_tasks_claimed", ["workflow_id", "claimed_by"], "claimed_by")

    op.create_table(
        "plan_dependencies",
        sa.Column("task_id", sa.Text, sa.ForeignKey("plan_tasks.id"), primary_key=True),
        sa.Column("depends_on_id", sa.Text, sa.ForeignKey("plan_tasks.id"), primary_key=True),
    )
    op.create_index("plan_dependents", "plan_dependencies", ["depends_on_id"])

    op.create_table(
        "plan_claims",  # who held a task, in which epoch: a late holder is told from a stranger by this
        sa.Column("task_id", sa.Text, sa.ForeignKey("plan_tasks.id"), primary_key=True),
        sa.Column("epoch", sa.BigInteger, primary_key=True),
        sa.Column("agent_id", sa.Text, nullable=False),
        sa.Column("claimed_at", sa.BigInteger, nullable=False),
    )

    op.create_table(
        "checkpoints",
        sa.Column("task_id", sa.Text, sa.ForeignKey("plan_tasks.id"), primary_key=True),
        sa.Column("sequence", sa.BigInteger, primary_key=True),
        sa.Column("id", sa.Text, nullable=False, unique=True),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("summary", sa.Text, nullable=False),
        sa.Column("detail", sa.Text),
        sa.Column("files_changed", sa.Text, nullable=False),
        sa.Column("agent_id", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )

    op.create_table(
        "plan_history",
        sa.Column("workflow_id", sa.Text, sa.ForeignKey("plans.id"), primary_key=True),
        sa.Column("number", sa.BigInteger, primary_key=True),
        sa.Column("task_id", sa.Text),
        sa.Column("what", sa.Text, nullable=False),
        sa.Column("before", sa.Text),
        sa.Column("after", sa.Text),
        sa.Column("reason", sa.Text),
        sa.Column("by_whom", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
    )
    op.create_index("plan_history_by_task", "plan_history", ["task_id"])

    op.create_table(
        "templates",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False, unique=True),
        sa.Column("description", sa.Text),
        sa.Column("definition", sa.Text, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
    )
    _create_search()


def _create_index_of_some(name: str, columns: list[str], given: str) -> None:
    """An index of the few tasks that have this column, for nothing to pay for the others."""
    few = sa.text(f"{given} IS NOT NULL")
    op.create_index(name, "plan_tasks", columns, sqlite_where=few, postgresql_where=few)


def _create_search() -> None:
    """Words of plans, tasks, outcomes and checkpoints; only added to, so none has to be found again."""
    if op.get_context().dialect.name == "sqlite":
        op.execute("CREATE VIRTUAL TABLE plan_words USING fts5(id UNINDEXED, workflow_id UNINDEXED, words)")
        return
    op.execute(
        "CREATE TABLE plan_words (id TEXT NOT NULL, workflow_id TEXT NOT NULL, words TSVECTOR NOT NULL)"
    )
    op.execute("CREATE INDEX plan_words_by_word ON plan_words USING gin (words)")
    op.execute("CREATE INDEX plan_words_by_plan ON plan_words (workflow_id)")
