"""A complete application for a test: real databases, real tools, and a manual clock."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from deepwork.edge.server.application import Application
from deepwork.edge.server.invocation import invoke
from deepwork.kernel.call import Call
from deepwork.kernel.config import load_settings
from deepwork.kernel.database.opening import open_engine
from deepwork.kernel.database.schema import HEAD
from deepwork.kernel.database.seals import LISTED_TABLES, compute_list_seal
from deepwork.kernel.database.store_key import StoreIdentity, read_exposed_key
from deepwork.kernel.events.log import Event, EventStore

if TYPE_CHECKING:
    import psycopg

NOW = 1_800_000_000_000
LEASE_MS = 90_000
LARGE_TABLE_BYTES = 1024 * 1024
_LARGE_TABLES_SQL = "SELECT name FROM unnest(%s::text[]) AS name WHERE pg_relation_size(name::regclass) > %s"

_kept: dict[str, psycopg.Connection[Any]] = {}
"""Open connections that empty databases: a new one first reads about every table, which takes longest."""


class Clock:
    """A manual clock in milliseconds, moved only by `advance`."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> int:
        return self.now

    def advance(self, *, seconds: float) -> None:
        self.now += int(seconds * 1000)


def make_app(folder: Path, location: str, clock: Clock | None = None, **flags: Any) -> Application:
    """Create an application on this database, with a project in this folder."""
    return Application(load_settings(folder, {"database": location, **flags}, environment={}), clock)


def call_tool(
    app: Application, tool: str, key: str | None = None, caller: str = "local", **arguments: Any
) -> Any:
    """Call a tool as a transport does, with input checks and idempotency."""
    return invoke(app.database, app.registry[tool], arguments, Call(caller, tool, key, account=caller))


def list_events(app: Application, since: int = 0) -> list[Event]:
    """List the recorded events."""
    with app.database.reading() as tx:
        return EventStore(tx).list_after(since, 10_000)


def list_event_types(app: Application) -> list[str]:
    """List the types of the recorded events, in order."""
    return [event.type for event in list_events(app)]


def empty_database(url: str) -> None:
    """Empty a PostgreSQL database; creates its tables if it is new.

    TRUNCATE makes a new file for each table and index, 300 of them: to delete the few rows of a test takes a
    hundredth of that. Only a table that has become large is truncated.
    """
    tables = (
        "messages, inboxes, notices, agents, leases, lost_leases, events, idempotency_keys, job_sessions, passed_reviews, "
        "plans, plan_tasks, plan_dependencies, plan_capabilities, plan_claims, checkpoints, "
        "plan_history, plan_words, templates, "
        "repositories, workspaces, tokens, audit, tracked_workflows, phases, tracked_tasks, decisions, issues, "
        "milestones, watches, changed_files, proofs, proof_uses, guarded_starts, approvals, person_credentials, review_rounds, "
        "spending, spending_totals, runner_runs, runner_hosts, attempts, port_blocks, landings, branch_leases, "
        "notifications, notification_channels, visits, "
        "commit_links, seals, rewinds, rewind_tasks, checkpoint_trees, review_comments, inbox_marks, wishes"
    )
    with _connect(url) as connection:
        if _read_schema(connection) != HEAD:
            engine = open_engine(url)
            engine.prepare()
            engine.close()
        names = tables.split(", ")
        large = connection.execute(_LARGE_TABLES_SQL, [names, LARGE_TABLE_BYTES]).fetchall()
        connection.execute("SET session_replication_role = replica")  # no trigger checks foreign keys
        identity = connection.execute("SELECT id, secret, keyed_from, mark FROM store_identity").fetchone()
        key = read_exposed_key(StoreIdentity(*identity or ()))
        resets = ["UPDATE event_sequence SET last_seq = 0", "UPDATE audit_head SET seq = 0, chain = ''"]
        resets += [
            f"DELETE FROM sealed_lists WHERE kind = '{table}';"
            f"INSERT INTO sealed_lists VALUES ('{table}', '{compute_list_seal(key, table, [])}')"
            for table in LISTED_TABLES
        ]
        connection.execute(
            "; ".join(["BEGIN", *(f"DELETE FROM {name}" for name in names), *resets, "COMMIT"])
        )
        for (name,) in large:
            connection.execute(f"TRUNCATE {name} CASCADE")


@contextmanager
def keep_connection(url: str) -> Iterator[None]:
    """Empty this database over one connection from now on; only for one that nobody drops before the end."""
    _kept[url] = _open(url)
    try:
        yield
    finally:
        _kept.pop(url).close()


@contextmanager
def _connect(url: str) -> Iterator[psycopg.Connection[Any]]:
    """Connect, or use the connection that is kept; one that a test ended is replaced."""
    if url not in _kept:
        with _open(url) as opened:
            yield opened
        return
    if not _answers(_kept[url]):
        _kept[url].close()
        _kept[url] = _open(url)
    yield _kept[url]


def _open(url: str) -> psycopg.Connection[Any]:
    import psycopg

    # Prepared statements would not survive the migrations of some tests.
    return psycopg.connect(url, autocommit=True, prepare_threshold=None)


def _answers(connection: psycopg.Connection[Any]) -> bool:
    import psycopg

    try:
        connection.execute("ROLLBACK")  # of what a failure left open
    except psycopg.OperationalError:
        return False
    return True


def _read_schema(connection: psycopg.Connection[Any]) -> str | None:
    if connection.execute("SELECT to_regclass('alembic_version')").fetchone() == (None,):
        return None
    [version] = connection.execute("SELECT version_num FROM alembic_version").fetchone() or (None,)
    return version


def measure_bytes(answer: Any) -> int:
    """Return the size of an answer as JSON, in bytes."""
    return len(json.dumps(answer).encode())


def skip_or_fail(reason: str) -> NoReturn:
    """Skip a test because this machine lacks something; fail instead if the run must be complete."""
    if os.environ.get("DEEPWORK_TESTS_COMPLETE"):
        pytest.fail(f"{reason}, and this run may leave nothing out.")
    pytest.skip(reason)
