"""Tracking: workflows, phases and tasks as they happen, what was decided, and what each task changed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_table(
        "tracked_workflows",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("objective", sa.Text, nullable=False),
        sa.Column("scope", sa.Text),
        sa.Column("constraints", sa.Text),
        sa.Column("profile", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("outcome", sa.Text),
        sa.Column("summary", sa.Text),
        sa.Column("achievements", sa.Text, nullable=False),
        sa.Column("limitations", sa.Text, nullable=False),
        sa.Column("current_phase", sa.BigInteger, nullable=False),
        sa.Column("total_phases", sa.BigInteger, nullable=False),
        sa.Column("repository_path", sa.Text, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("completed_at", sa.BigInteger),
    )
    op.create_index("tracked_workflows_by_age", "tracked_workflows", ["created_at", "id"])
    op.create_index("tracked_workflows_by_change", "tracked_workflows", ["updated_at", "id"])
    op.create_index("tracked_workflows_by_status", "tracked_workflows", ["status", "updated_at"])

    op.create_table(
        "phases",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("workflow_id", sa.Text, sa.ForeignKey("tracked_workflows.id"), nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("description", sa.Text),
        sa.Column("summary", sa.Text),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("is_parallel", sa.Boolean, nullable=False),
        sa.Column("started_at", sa.BigInteger, nullable=False),
        sa.Column("completed_at", sa.BigInteger),
        sa.UniqueConstraint("workflow_id", "number", name="phases_by_number"),
    )

    op.create_table(
        "tracked_tasks",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("workflow_id", sa.Text, sa.ForeignKey("tracked_workflows.id"), nullable=False),
        sa.Column("phase_id", sa.Text, sa.ForeignKey("phases.id"), nullable=False),
        sa.Column("parent_task_id", sa.Text, sa.ForeignKey("tracked_tasks.id")),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("goal", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("caller_type", sa.Text, nullable=False),
        sa.Column("agent_name", sa.Text),
        sa.Column("areas", sa.Text, nullable=False),
        sa.Column("started_at", sa.BigInteger, nullable=False),
        sa.Column("last_sign_at", sa.BigInteger, nullable=False),
        sa.Column("completed_at", sa.BigInteger),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("metadata", sa.Text, nullable=False),
        sa.Column("result", sa.Text, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
    )
    # Holds what a phase's counts ask for, so that 10,000 tasks are counted without being read.
    op.create_index(
        "tracked_tasks_by_phase", "tracked_tasks", ["phase_id", "status", "started_at", "completed_at"]
    )
    op.create_index("tracked_tasks_in_order", "tracked_tasks", ["workflow_id", "started_at", "id"])
    # The same for a whole workflow, with who does them.
    op.create_index(
        "tracked_tasks_by_status", "tracked_tasks", ["workflow_id", "status", "agent_name", "tokens"]
    )
    op.create_index("tracked_tasks_by_name", "tracked_tasks", ["workflow_id", "name", "started_at"])
    # The few that ended with the word that a person should look at them, as JSON writes it.
    to_review = sa.text("""outcome LIKE '%"manual_review_needed": true%'""")
    op.create_index(
        "tasks_to_review",
        "tracked_tasks",
        ["completed_at", "id"],
        sqlite_where=to_review,
        postgresql_where=to_review,
    )
    nested = sa.text("parent_task_id IS NOT NULL")
    op.create_index(
        "tracked_tasks_by_parent",
        "tracked_tasks",
        ["parent_task_id", "status"],
        sqlite_where=nested,
        postgresql_where=nested,
    )

    # Decisions, issues and milestones hang on tasks of any kind: tracked, planned, or a step of a job.
    _create_notes(
        "decisions",
        sa.Column("category", sa.Text, nullable=False),
        sa.Column("question", sa.Text, nullable=False),
        sa.Column("options_considered", sa.Text, nullable=False),
        sa.Column("chosen", sa.Text, nullable=False),
        sa.Column("reasoning", sa.Text, nullable=False),
        sa.Column("trade_offs", sa.Text),
    )
    _create_notes(
        "issues",
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("resolution", sa.Text, nullable=False),
        sa.Column("requires_human_review", sa.Boolean, nullable=False),
        sa.Column("resolved_at", sa.BigInteger),
        sa.Column("resolved_by", sa.Text),
        sa.Column("resolution_note", sa.Text),
    )
    open_blocker = sa.text("requires_human_review AND resolved_at IS NULL")
    op.create_index(
        "open_blockers",
        "issues",
        ["workflow_id", "created_at"],
        sqlite_where=open_blocker,
        postgresql_where=open_blocker,
    )
    _create_notes(
        "milestones",
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("progress", sa.BigInteger),
        sa.Column("metadata", sa.Text),
    )

    op.create_table(
        "watches",  # a task's time in a working tree, and that tree at both ends of it
        sa.Column("task_id", sa.Text, primary_key=True),
        sa.Column("attempt", sa.BigInteger, primary_key=True),
        sa.Column("workflow_id", sa.Text, nullable=False),
        sa.Column("parent_task_id", sa.Text),
        sa.Column("areas", sa.Text, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("tree_path", sa.Text, nullable=False),
        sa.Column("began_at", sa.BigInteger, nullable=False),  # nanoseconds on the host's clock
        sa.Column("began", sa.Text, nullable=False),
        sa.Column("ended_at", sa.BigInteger),
        sa.Column("ended", sa.Text),
    )
    op.create_index("watches_by_tree", "watches", ["host", "tree_path", "ended_at", "began_at"])

    op.create_table(
        "changed_files",
        sa.Column("task_id", sa.Text, primary_key=True),
        sa.Column("path", sa.Text, primary_key=True),
        sa.Column("workflow_id", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("attribution", sa.Text, nullable=False),
        sa.Column("details", sa.Text, nullable=False),
    )
    op.create_index("changed_files_by_plan", "changed_files", ["workflow_id", "path"])
    op.create_index("changed_files_by_task", "changed_files", ["workflow_id", "task_id"])
    _create_indexes_of_lists()


def _create_indexes_of_lists() -> None:
    """What lists over all runs are sorted by, newest first, so that a page is read and not the whole."""
    op.create_index("decisions_by_time", "decisions", ["created_at", "id"])
    for_people = sa.text("requires_human_review")
    op.create_index(
        "blockers_by_time",
        "issues",
        ["created_at", "id"],
        sqlite_where=for_people,
        postgresql_where=for_people,
    )
    open_blocker = sa.text("requires_human_review AND resolved_at IS NULL")
    op.create_index(
        "open_blockers_by_time",
        "issues",
        ["created_at", "id"],
        sqlite_where=open_blocker,
        postgresql_where=open_blocker,
    )
    op.create_index("plans_by_change", "plans", ["updated_at", "id"])
    op.create_index("plan_claims_by_agent", "plan_claims", ["agent_id"])
    op.create_index("job_sessions_by_age", "job_sessions", ["started_at", "id"])
    op.create_index("job_sessions_by_change", "job_sessions", ["updated_at", "id"])


def _create_notes(table: str, *columns: sa.Column[object]) -> None:
    op.create_table(
        table,
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("workflow_id", sa.Text, nullable=False),
        sa.Column("task_id", sa.Text, nullable=False),
        sa.Column("task_name", sa.Text, nullable=False),
        sa.Column("phase_id", sa.Text),
        sa.Column("agent_name", sa.Text),
        *columns,
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    op.create_index(f"{table}_by_age", table, ["workflow_id", "created_at", "id"])
    op.create_index(f"{table}_by_task", table, ["task_id", "created_at", "id"])
