"""What must be true before a task counts as done: checks, approvals, reviews that end, budgets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import sqlalchemy as sa
from alembic import op

from deepwork.kernel.values import encode_letters

revision = "0012"
down_revision = "0011"

BATCH = 500
VERDICTS = ("approved", "refused", "acknowledged")


def upgrade() -> None:
    _add_requirements()
    _create_proofs()
    _create_approvals()
    if not op.get_context().as_sql:  # the schema snapshot has no rows
        _copy_approvals()
    _create_review_rounds()
    _create_spending()


def _add_requirements() -> None:
    # What a plan and a task require, as JSON: it is read with them and never searched.
    op.add_column("plans", sa.Column("requirements", sa.Text))
    op.add_column("plans", sa.Column("base_commit", sa.Text))
    op.add_column("plans", sa.Column("base_branch", sa.Text))
    op.add_column("plan_tasks", sa.Column("requirements", sa.Text))
    op.add_column("plan_tasks", sa.Column("waits_for", sa.Text))  # 'approval': its work is done
    op.create_index(
        "plan_tasks_waiting",
        "plan_tasks",
        ["workflow_id", "waits_for"],
        sqlite_where=sa.text("waits_for IS NOT NULL"),
        postgresql_where=sa.text("waits_for IS NOT NULL"),
    )
    # How long it was claimed or running, and since when it is: minutes bind without any report.
    op.add_column("plan_tasks", sa.Column("active_ms", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("plan_tasks", sa.Column("active_since", sa.BigInteger))
    op.create_index(
        "plan_tasks_active",
        "plan_tasks",
        ["workflow_id", "active_since"],
        sqlite_where=sa.text("active_since IS NOT NULL"),
        postgresql_where=sa.text("active_since IS NOT NULL"),
    )
    op.add_column("tracked_workflows", sa.Column("requirements", sa.Text))
    op.add_column("tracked_workflows", sa.Column("base_commit", sa.Text))
    op.add_column("tracked_workflows", sa.Column("base_branch", sa.Text))


def _create_proofs() -> None:
    op.create_table(
        "proofs",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("check_name", sa.Text, nullable=False),
        sa.Column("verdict", sa.Text, nullable=False),
        sa.Column("inputs_digest", sa.Text, nullable=False),
        sa.Column("definition_digest", sa.Text, nullable=False),
        sa.Column("exit_code", sa.BigInteger),
        sa.Column("tests_run", sa.BigInteger),
        sa.Column("tests_skipped", sa.BigInteger),
        sa.Column("duration_ms", sa.BigInteger, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("tree", sa.Text, nullable=False),
        sa.Column("head", sa.Text),
        sa.Column("output_file", sa.Text),
        sa.Column("output_digest", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("waived_by", sa.Text),
        sa.Column("waived_at", sa.BigInteger),
        sa.Column("waive_reason", sa.Text),
        sa.Column("asked_by", sa.Text),  # the subject that it was run for first, such as task:ID
    )
    op.create_index("proofs_by_inputs", "proofs", ["inputs_digest", "definition_digest"])
    op.create_index("proofs_by_age", "proofs", ["created_at"])
    op.create_index("proofs_by_subject", "proofs", ["asked_by"])
    op.create_table(
        "proof_uses",
        sa.Column("subject_kind", sa.Text, primary_key=True),  # task, tracked_task, step
        sa.Column("subject_id", sa.Text, primary_key=True),
        sa.Column("proof_id", sa.Text, sa.ForeignKey("proofs.id"), primary_key=True),
        sa.Column("used_at", sa.BigInteger, nullable=False),
    )
    op.create_index("proof_uses_by_proof", "proof_uses", ["proof_id"])


def _create_approvals() -> None:
    op.create_table(
        "approvals",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("subject_kind", sa.Text, nullable=False),  # plan, task, step, guarded, budget, tracked_task
        sa.Column("subject_id", sa.Text, nullable=False),
        sa.Column("workflow_id", sa.Text),  # the plan, tracked workflow or job session it belongs to
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("shown", sa.Text, nullable=False),  # what the digest covers, as JSON
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("asked_by", sa.Text, nullable=False),
        sa.Column("asked_at", sa.BigInteger, nullable=False),
        sa.Column("decided_by", sa.Text),
        sa.Column("decided_at", sa.BigInteger),
        sa.Column("method", sa.Text),  # token, passphrase, passkey
        sa.Column("comment", sa.Text),
        sa.Column("lasts_ms", sa.BigInteger),  # from the decision; NULL: for ever
        sa.Column("used_at", sa.BigInteger),
        sa.Column("waiting", sa.Text),  # agents that were refused since, as JSON: they get a notice too
        sa.Column("created_seq", sa.BigInteger),
    )
    _number_by_creation("approvals")
    op.create_index("approvals_by_subject", "approvals", ["subject_kind", "subject_id", "created_seq"])
    op.create_index("approvals_by_workflow", "approvals", ["workflow_id"])
    op.create_index("approvals_by_status", "approvals", ["status", "asked_at", "created_seq"])
    op.create_index(
        "approvals_pending",
        "approvals",
        ["subject_kind", "subject_id"],
        unique=True,
        sqlite_where=sa.text("status = 'pending'"),
        postgresql_where=sa.text("status = 'pending'"),
    )
    op.create_table(
        "person_credentials",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("method", sa.Text, nullable=False),  # passphrase, passkey
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("data", sa.Text, nullable=False),  # salt and hash, or a public key, as JSON
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("removed_at", sa.BigInteger),
        sa.Column("failed_tries", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("locked_until", sa.BigInteger),
        sa.Column("sign_count", sa.BigInteger, nullable=False, server_default="0"),
    )


def _copy_approvals() -> None:
    """Copy what people decided about tracked tasks, until now milestones that a person logged."""
    query = sa.text(
        "SELECT id, task_id, task_name, workflow_id, message, metadata, created_at, created_seq,"
        " logged_by_person AS person FROM milestones"
        " WHERE substr(logged_by_person, 1, 6) = 'human:' AND substr(task_id, 1, 3) = 'tt_'"
        " AND (created_at, created_seq) > (:at, :seq) ORDER BY created_at, created_seq LIMIT :batch"
    )
    values = {"at": -(2**62), "seq": 0, "batch": BATCH}
    while rows := op.get_bind().execute(query, values).mappings().all():
        copied = [_build_approval({**row}) for row in rows]
        names = ", ".join(copied[0])
        places = ", ".join(f":{name}" for name in copied[0])
        op.get_bind().execute(sa.text(f"INSERT INTO approvals ({names}) VALUES ({places})"), copied)  # noqa: S608
        values |= {"at": rows[-1]["created_at"], "seq": rows[-1]["created_seq"]}


def _build_approval(milestone: Mapping[str, Any]) -> dict[str, Any]:
    """Build the row of a decision; what exactly the person saw is not known, so it shows the note."""
    verdict = _find_verdict(milestone["metadata"])
    shown = {"name": milestone["task_name"], "milestone": milestone["id"], "verdict": verdict}
    text = json.dumps(shown, sort_keys=True, separators=(",", ":"))
    return {
        "id": f"ap_{encode_letters(sha256(milestone['id'].encode()).digest())}",
        "subject_kind": "tracked_task",
        "subject_id": milestone["task_id"],
        "workflow_id": milestone["workflow_id"],
        "digest": sha256(text.encode()).hexdigest(),
        "shown": text,
        "status": "refused" if verdict == "refused" else "given",
        "asked_by": milestone["person"],
        "asked_at": milestone["created_at"],
        "decided_by": milestone["person"],
        "decided_at": milestone["created_at"],
        "method": "token",
        "comment": milestone["message"],
    }


def _find_verdict(metadata: str | None) -> str:
    """Return the verdict of a person; a note without one, or a damaged row, says nothing but its text."""
    try:
        value = json.loads(metadata or "{}")
    except (ValueError, RecursionError):
        return "note"
    verdict = value.get("verdict") if isinstance(value, dict) else None
    return verdict if isinstance(verdict, str) and verdict in VERDICTS else "note"


def _number_by_creation(table: str) -> None:
    """Let the database fill `created_seq`, by which lists break ties: ids are random."""
    op.create_index(f"{table}_by_creation", table, ["created_seq"], unique=True)
    if op.get_context().dialect.name == "sqlite":
        op.execute(
            f"CREATE TRIGGER {table}_creation AFTER INSERT ON {table} WHEN NEW.created_seq IS NULL BEGIN"  # noqa: S608
            f" UPDATE {table}"
            f" SET created_seq = 1 + max(0, (SELECT coalesce(max(created_seq), 0) FROM {table}))"
            " WHERE rowid = NEW.rowid; END"
        )
    else:
        op.alter_column(
            table, "created_seq", nullable=False, server_default=sa.text("nextval('creation_order')")
        )


def _create_review_rounds() -> None:
    op.create_table(
        "review_rounds",
        sa.Column("subject_kind", sa.Text, primary_key=True),  # step, rule
        sa.Column("subject_id", sa.Text, primary_key=True),
        sa.Column("rule", sa.Text, primary_key=True),
        sa.Column("number", sa.BigInteger, primary_key=True),
        sa.Column("tree", sa.Text),
        sa.Column("reviewer", sa.Text),
        sa.Column("passed", sa.Boolean, nullable=False),
        sa.Column("findings", sa.Text, nullable=False),  # as JSON
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )


def _create_spending() -> None:
    op.create_table(
        "spending",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("stream", sa.Text, nullable=False),  # with the number: a repeated report counts once
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("workflow_id", sa.Text),
        sa.Column("task_id", sa.Text),
        sa.Column("agent_id", sa.Text),
        sa.Column("vendor", sa.Text),
        sa.Column("model", sa.Text),
        sa.Column("tokens", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("usd_micros", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("source", sa.Text, nullable=False),  # reported, priced, estimated, unverified
        sa.Column("at", sa.BigInteger, nullable=False),
    )
    op.create_index("spending_once", "spending", ["stream", "number"], unique=True)
    op.create_index("spending_by_workflow", "spending", ["workflow_id", "task_id"])
    op.create_index("spending_by_time", "spending", ["at"])
    # Running totals, so that what a claim costs does not grow with the ledger.
    op.create_table(
        "spending_totals",
        sa.Column("subject_kind", sa.Text, primary_key=True),  # plan, task, day
        sa.Column("subject_id", sa.Text, primary_key=True),  # a day is YYYY-MM-DD, in UTC
        sa.Column("tokens", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("usd_micros", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("active_ms", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("reached_at", sa.BigInteger),  # when work was first refused, until the budget is raised
    )
    op.create_index(
        "spending_totals_reached",
        "spending_totals",
        ["reached_at"],
        sqlite_where=sa.text("reached_at IS NOT NULL"),
        postgresql_where=sa.text("reached_at IS NOT NULL"),
    )
