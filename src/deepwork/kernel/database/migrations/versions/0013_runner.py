"""Runs: agents that deepwork starts, their attempts at tasks, and the ports of their trees."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    _create_runs()
    _create_attempts()
    _create_port_blocks()


def _create_runs() -> None:
    op.create_table(
        "runner_runs",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("workflow_id", sa.Text),  # a plan
        sa.Column("job", sa.Text),  # or a job and its workflow, as NAME/WORKFLOW
        sa.Column("goal", sa.Text),
        sa.Column("session_id", sa.Text),  # the session of the job
        sa.Column("repository_path", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("chain", sa.Text, nullable=False),  # profiles or commands, as JSON
        sa.Column("settings", sa.Text, nullable=False),  # numbers and choices, as JSON
        sa.Column("reason", sa.Text),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("ended_at", sa.BigInteger),
    )
    op.create_index("runner_runs_by_age", "runner_runs", ["created_at", "id"])
    is_open = sa.text("ended_at IS NULL")
    op.create_index(  # a second `deepwork run` joins
        "runner_runs_open_plan",
        "runner_runs",
        ["workflow_id"],
        unique=True,
        sqlite_where=is_open,
        postgresql_where=is_open,
    )
    op.create_table(
        "runner_hosts",
        sa.Column("run_id", sa.Text, sa.ForeignKey("runner_runs.id"), primary_key=True),
        sa.Column("host", sa.Text, primary_key=True),
        sa.Column("agents", sa.BigInteger, nullable=False),  # how many it may start at the same time
        sa.Column("joined_at", sa.BigInteger, nullable=False),
    )
    op.create_index("runner_hosts_by_host", "runner_hosts", ["host"])


def _create_attempts() -> None:
    op.create_table(
        "attempts",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("run_id", sa.Text, sa.ForeignKey("runner_runs.id"), nullable=False),
        sa.Column("workflow_id", sa.Text),
        sa.Column("task_id", sa.Text, nullable=False),  # a planned task, or SESSION/STEP of a job
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("profile", sa.Text, nullable=False),
        sa.Column("vendor", sa.Text, nullable=False),
        sa.Column("agent_id", sa.Text, nullable=False),
        sa.Column("claim_epoch", sa.BigInteger, nullable=False),
        sa.Column("stage", sa.Text, nullable=False),
        sa.Column("parked_for", sa.Text),  # limit, person, budget
        sa.Column("reason", sa.Text),
        sa.Column("not_before", sa.BigInteger),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("boot_id", sa.Text),
        sa.Column("pid", sa.BigInteger),
        sa.Column("start_time", sa.Text),
        sa.Column("tree", sa.Text),
        sa.Column("branch", sa.Text),
        sa.Column("port", sa.BigInteger),
        sa.Column("vendor_session", sa.Text),
        sa.Column("starts", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("resumes", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column(
            "waits", sa.BigInteger, nullable=False, server_default="0"
        ),  # times it was parked at a limit
        sa.Column("stream_offset", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("stream_state", sa.Text, nullable=False),  # what the stream said up to there, as JSON
        sa.Column("input_tokens", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("cached_tokens", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("output_tokens", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("usd_micros", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("usd_source", sa.Text),
        sa.Column("now_doing", sa.Text),
        sa.Column("next_prompt", sa.Text),  # what the next start is told, such as a failed check
        sa.Column("outcome", sa.Text),
        sa.Column("started_at", sa.BigInteger),  # of the current process
        sa.Column("active_at", sa.BigInteger),  # its last output or use of the processor
        sa.Column("cpu_ms", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("entries", sa.BigInteger, nullable=False, server_default="0"),  # its lines in the ledger
        sa.Column("exhausted", sa.BigInteger, nullable=False, server_default="0"),  # the task failed with it
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("ended_at", sa.BigInteger),
        sa.UniqueConstraint("task_id", "number"),
    )
    op.create_index("attempts_by_run", "attempts", ["run_id", "created_at"])
    is_open = sa.text("ended_at IS NULL")
    op.create_index(  # a task has at most one open attempt
        "attempts_open", "attempts", ["task_id"], unique=True, sqlite_where=is_open, postgresql_where=is_open
    )
    op.create_index(
        "attempts_open_by_host", "attempts", ["host"], sqlite_where=is_open, postgresql_where=is_open
    )


def _create_port_blocks() -> None:
    op.create_table(
        "port_blocks",
        sa.Column("host", sa.Text, primary_key=True),
        sa.Column("first_port", sa.BigInteger, primary_key=True),
        sa.Column("tree", sa.Text, nullable=False),
        sa.Column("taken_at", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("host", "tree"),
    )
