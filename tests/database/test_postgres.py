from __future__ import annotations

import functools
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from application import call_tool, empty_database, make_app
from deepwork.kernel.database import postgres
from deepwork.kernel.database.postgres import MOST_CONNECTIONS, PostgreSQL
from deepwork.kernel.errors import StorageError
from deepwork.work.agents.store import LeaseStore


def test_a_password_is_never_shown():
    engine = PostgreSQL("postgresql://ada:geheim@db.example/work")

    assert "geheim" not in engine.name
    assert engine.name == "PostgreSQL database 'work' on db.example"


def test_an_invalid_url_is_reported_in_one_sentence():
    with pytest.raises(StorageError, match="URL is invalid") as refused:
        PostgreSQL("postgresql://host:not-a-port:5/x?y")

    assert "postgresql://user@host" in refused.value.suggestion


def test_an_unreachable_server_is_reported_without_secrets(tmp_path: Path):
    app = make_app(tmp_path, "postgresql://ada:geheim@127.0.0.1:1/work")

    with pytest.raises(StorageError, match="cannot be reached") as refused:
        call_tool(app, "agent_list")

    assert refused.value.recoverable
    assert "geheim" not in refused.value.message + refused.value.suggestion


def test_calls_succeed_after_the_server_closed_every_connection(tmp_path: Path, postgres_url: str):
    empty_database(postgres_url)
    app = make_app(tmp_path, postgres_url)
    at_once = threading.Barrier(MOST_CONNECTIONS)

    def hold_a_connection(_: int) -> None:
        with app.database.reading() as tx:
            at_once.wait(timeout=100)
            tx.fetch_value("SELECT 1")

    with ThreadPoolExecutor(MOST_CONNECTIONS) as holders:
        list(holders.map(hold_a_connection, range(MOST_CONNECTIONS)))
    end_all_connections(postgres_url)

    with ThreadPoolExecutor(MOST_CONNECTIONS) as callers:
        register = functools.partial(call_tool, app, "agent_register", runtime="custom")
        names = [f"agent {number}" for number in range(2 * MOST_CONNECTIONS)]
        answers = list(callers.map(lambda name: register(name=name), names))

    assert [answer["name"] for answer in answers] == names
    assert call_tool(app, "agent_list")["total"] == len(names)
    app.close()


def test_an_exhausted_pool_is_reported_as_busy_not_as_unreachable(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
):
    empty_database(postgres_url)
    app = make_app(tmp_path, postgres_url)
    with ExitStack() as held:
        for _ in range(MOST_CONNECTIONS):
            held.enter_context(app.database.reading())
        monkeypatch.setattr(postgres, "CONNECT_SECONDS", 0.2)
        with pytest.raises(StorageError, match="was busy"):
            call_tool(app, "agent_list")

    assert call_tool(app, "agent_list")["total"] == 0
    app.close()


def test_a_connection_lost_before_the_commit_changes_nothing_and_can_be_retried(
    tmp_path: Path, postgres_url: str
):
    empty_database(postgres_url)
    app = make_app(tmp_path, postgres_url)

    def send_and_be_cut() -> None:
        with app.database.transaction() as tx:
            tx.emit("chaos:told", {})
            end_all_connections(postgres_url)

    with pytest.raises(StorageError, match="cannot be reached") as lost:
        send_and_be_cut()

    assert lost.value.recoverable
    assert app.feed.get_last_seq() == 0
    app.close()


def test_a_connection_lost_during_the_commit_leaves_the_outcome_unknown_and_a_key_resolves_it(
    tmp_path: Path, postgres_url: str
):
    empty_database(postgres_url)
    app = make_app(tmp_path, postgres_url)
    register = functools.partial(call_tool, app, "agent_register", key="k", name="Ada", runtime="custom")

    with (
        end_connection_at_commit(postgres_url),
        pytest.raises(StorageError, match="the change may or may not have been saved") as lost,
    ):
        register()
    first, second = register(), register()

    assert lost.value.recoverable
    assert "idempotency key" in lost.value.suggestion
    assert first == second
    assert call_tool(app, "agent_list")["total"] == 1
    app.close()


def test_committing_a_failed_transaction_is_an_error(tmp_path: Path, postgres_url: str):
    empty_database(postgres_url)
    app = make_app(tmp_path, postgres_url)

    def fail_and_continue() -> None:
        with app.database.transaction() as tx, suppress(psycopg.errors.UndefinedTable):
            tx.execute("DELETE FROM a_table_that_is_not_there")

    with pytest.raises(StorageError, match="nothing was changed"):
        fail_and_continue()

    app.close()


def test_a_slow_statement_is_reported_as_busy(tmp_path: Path, postgres_url: str):
    empty_database(postgres_url)
    app = make_app(tmp_path, f"{postgres_url}&options=-c%20statement_timeout%3D1000")

    with pytest.raises(StorageError, match="was busy") as slow, app.database.reading() as tx:
        tx.fetch_value("SELECT pg_sleep(30)")

    assert slow.value.recoverable
    app.close()


def test_time_comes_from_the_server_not_from_this_machine(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
):
    empty_database(postgres_url)
    app = make_app(tmp_path, postgres_url)
    right = time.time_ns() // 1_000_000

    for clock, wrong in (("time", 0.0), ("time_ns", 0)):
        monkeypatch.setattr(time, clock, lambda wrong=wrong: wrong)
    with app.database.transaction() as tx:
        taken = LeaseStore(tx, lease_ms=1000).take("tk_1", "ag_1")
    app.close()

    assert taken is not None
    assert taken.until >= right + 1000


def end_all_connections(url: str) -> None:
    """Close every connection of deepwork, and wait until the server has closed them."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 100000) FROM pg_stat_activity"
            " WHERE application_name = 'deepwork' AND pid <> pg_backend_pid()"
        )


@contextmanager
def end_connection_at_commit(url: str) -> Iterator[None]:
    """Make the server close a connection that commits a new agent: after the COMMIT, before its answer."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            """
            CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS
                'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END';
            CREATE CONSTRAINT TRIGGER dies AFTER INSERT ON agents DEFERRABLE INITIALLY DEFERRED
                FOR EACH ROW EXECUTE FUNCTION die()
            """
        )
        try:
            yield
        finally:
            connection.execute("DROP FUNCTION die CASCADE")


def test_doctor_describes_the_server(postgres_url: str):
    empty_database(postgres_url)
    engine = PostgreSQL(postgres_url)

    assert dict(engine.describe())["engine"].startswith("PostgreSQL ")
    assert list(engine.find_problems()) == []
