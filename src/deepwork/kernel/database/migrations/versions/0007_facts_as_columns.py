"""Facts that were found by searching JSON text become columns, and a table.

Milestones logged by people, tasks that need a manual review, the goals of job sessions and the capabilities
that planned tasks require. Existing rows get their values from their parsed JSON, so text that only looks
like a fact, for example in a nested object, does not count.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

BATCH = 500

Rows = Iterator[dict[str, Any]]


def upgrade() -> None:
    op.add_column("milestones", sa.Column("logged_by_person", sa.Text))
    op.add_column(
        "tracked_tasks",
        sa.Column("manual_review_needed", sa.Boolean, nullable=False, server_default=sa.false()),
    )
    op.add_column("job_sessions", sa.Column("goal", sa.Text, nullable=False, server_default=""))
    op.create_table(
        "plan_capabilities",
        sa.Column("task_id", sa.Text, sa.ForeignKey("plan_tasks.id"), primary_key=True),
        # The key has a number: a capability may be longer than PostgreSQL accepts in an index.
        sa.Column("number", sa.BigInteger, primary_key=True),
        sa.Column("capability", sa.Text, nullable=False),
    )
    if not op.get_context().as_sql:  # the schema snapshot has no rows
        _fill("UPDATE milestones SET logged_by_person = :person WHERE id = :id", _find_persons())
        _fill("UPDATE tracked_tasks SET manual_review_needed = TRUE WHERE id = :id", _find_manual_reviews())
        _fill("UPDATE job_sessions SET goal = :goal WHERE id = :id", _find_goals())
        _fill(
            "INSERT INTO plan_capabilities (task_id, number, capability)"
            " VALUES (:task_id, :number, :capability)",
            _find_capabilities(),
        )
    op.drop_index("tasks_to_review", table_name="tracked_tasks")
    needed = sa.text("manual_review_needed")
    op.create_index(
        "tasks_to_review",
        "tracked_tasks",
        ["completed_at", "created_seq"],
        sqlite_where=needed,
        postgresql_where=needed,
    )


def _fill(sql: str, rows: Rows) -> None:
    while batch := list(islice(rows, BATCH)):
        op.get_bind().execute(sa.text(sql), batch)


def _find_persons() -> Rows:
    for id, metadata in _read_objects("milestones", "metadata", containing="human:"):
        author = metadata.get("by")
        if isinstance(author, str) and author.startswith("human:"):
            yield {"id": id, "person": _to_storable(author)}


def _find_manual_reviews() -> Rows:
    for id, outcome in _read_objects("tracked_tasks", "outcome", containing="manual_review_needed"):
        if outcome.get("manual_review_needed") is True:
            yield {"id": id}


def _find_goals() -> Rows:
    for id, data in _read_objects("job_sessions", "data", containing="goal"):
        if isinstance(goal := data.get("goal"), str):
            yield {"id": id, "goal": _to_storable(goal)}


def _find_capabilities() -> Rows:
    for id, context in _read_objects("plan_tasks", "context", containing="required_capabilities"):
        required = context.get("required_capabilities")  # free-form, so it may be anything
        listed = required if isinstance(required, list) else [required]
        capabilities = sorted({each for each in listed if isinstance(each, str)})
        for number, capability in enumerate(map(_to_storable, capabilities)):
            yield {"task_id": id, "number": number, "capability": capability}


def _read_objects(table: str, column: str, containing: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Read ids and JSON objects, one batch at a time; `containing` only saves reading the other rows."""
    query = sa.text(
        f"SELECT id, {column} FROM {table} WHERE id > :last AND {column} LIKE :pattern"  # noqa: S608
        " ORDER BY id LIMIT :batch"
    )
    values = {"last": "", "pattern": f"%{containing}%", "batch": BATCH}
    while rows := op.get_bind().execute(query, values).all():
        yield from ((id, _parse_object(text)) for id, text in rows)
        values["last"] = rows[-1].id


def _parse_object(text: str) -> dict[str, Any]:
    """Parse a JSON object; a damaged row has no facts, and must not prevent the migration."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _to_storable(text: str) -> str:
    """Remove what JSON can escape but a column cannot store: NUL characters and lone surrogates."""
    return text.replace("\0", "").encode(errors="replace").decode()
