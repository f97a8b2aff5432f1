"""Creation order: rows of one millisecond are listed as they were created.

Every table that is listed by a time gets `created_seq`, filled by the database itself: by a sequence on
PostgreSQL, by a trigger on SQLite. A list sorts by its time, then by `created_seq`; ids are random and cannot
break a tie. The indexes behind these lists end with `created_seq` instead of `id`.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

# Each table with the time that orders the rows it already has.
TABLES = {
    "agents": "created_at",
    "messages": "created_at",
    "job_sessions": "started_at",
    "plans": "created_at",
    "repositories": "created_at",
    "workspaces": "created_at",
    "tokens": "created_at",
    "tracked_workflows": "created_at",
    "tracked_tasks": "started_at",
    "decisions": "created_at",
    "issues": "created_at",
    "milestones": "created_at",
}

RUNS = ("plans", "tracked_workflows", "job_sessions")
"""Listed together, so they are numbered together."""


def upgrade() -> None:
    is_sqlite = op.get_context().dialect.name == "sqlite"
    for table, time in TABLES.items():
        op.add_column(table, sa.Column("created_seq", sa.BigInteger))
        # SQLite numbers rows as they are inserted; PostgreSQL keeps no such trace, so the listed order stays.
        _number_rows(table, f"{time}, {'rowid' if is_sqlite else 'id'}")
        op.create_index(f"{table}_by_creation", table, ["created_seq"], unique=True)
    if is_sqlite:
        _create_triggers()
    else:
        _create_sequence()
    _replace_indexes()


def _number_rows(table: str, order: str) -> None:
    op.execute(
        f"UPDATE {table} SET created_seq = numbered.place"  # noqa: S608 - names of ours
        f" FROM (SELECT id, row_number() OVER (ORDER BY {order}) AS place FROM {table}) AS numbered"
        f" WHERE numbered.id = {table}.id"
    )


def _create_triggers() -> None:
    """One writer at a time: the highest number plus one is unique. Rows that bring a number keep it."""
    for table in TABLES:
        counted = RUNS if table in RUNS else (table,)
        # The 0 is there because max() of one argument is an aggregate.
        highest = ", ".join(
            f"(SELECT coalesce(max(created_seq), 0) FROM {each})"  # noqa: S608
            for each in counted
        )
        op.execute(
            f"CREATE TRIGGER {table}_creation AFTER INSERT ON {table} WHEN NEW.created_seq IS NULL BEGIN"  # noqa: S608
            f" UPDATE {table} SET created_seq = 1 + max(0, {highest})"
            " WHERE rowid = NEW.rowid; END"
        )


def _create_sequence() -> None:
    """One sequence for all tables; `PostgreSQLTables.fill` moves it past the numbers that rows bring."""
    op.execute("CREATE SEQUENCE creation_order")
    highest = ", ".join(f"(SELECT max(created_seq) FROM {table})" for table in TABLES)  # noqa: S608
    op.execute(f"SELECT setval('creation_order', greatest(1, {highest}))")
    for table in TABLES:
        op.alter_column(
            table, "created_seq", nullable=False, server_default=sa.text("nextval('creation_order')")
        )


def _replace_indexes() -> None:
    for table in ("agents", "plans", "repositories", "tracked_workflows"):
        _replace_index(f"{table}_by_age", table, "created_at")
    for table in ("plans", "tracked_workflows", "job_sessions"):
        _replace_index(f"{table}_by_change", table, "updated_at")
    for table in ("decisions", "issues", "milestones"):
        _replace_index(f"{table}_by_age", table, "workflow_id", "created_at")
        _replace_index(f"{table}_by_task", table, "task_id", "created_at")
    _replace_index("job_sessions_by_age", "job_sessions", "started_at")
    _replace_index("tracked_tasks_in_order", "tracked_tasks", "workflow_id", "started_at")
    _replace_index("messages_by_thread", "messages", "thread_id", "created_at")
    _replace_index("workspaces_by_plan", "workspaces", "workflow_id", "created_at")
    _replace_index("decisions_by_time", "decisions", "created_at")
    for_people = "requires_human_review"
    _replace_index("blockers_by_time", "issues", "created_at", only=for_people)
    _replace_index(
        "open_blockers_by_time", "issues", "created_at", only=f"{for_people} AND resolved_at IS NULL"
    )
    to_review = """outcome LIKE '%"manual_review_needed": true%'"""
    _replace_index("tasks_to_review", "tracked_tasks", "completed_at", only=to_review)


def _replace_index(name: str, table: str, *columns: str, only: str | None = None) -> None:
    op.drop_index(name, table_name=table)
    condition = None if only is None else sa.text(only)
    op.create_index(
        name, table, [*columns, "created_seq"], sqlite_where=condition, postgresql_where=condition
    )
