"""The quick look into a PostgreSQL: one connection, which waits for nobody for long."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from application import empty_database, make_app
from deepwork.kernel.database.existing_store import open_existing_store
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.errors import StorageError
from hooks.make import Project

LIMITS = ("lock_timeout", "statement_timeout", "application_name", "search_path")


@pytest.fixture
def url(tmp_path: Path, postgres_url: str) -> Iterator[str]:
    """A store with an agent in it."""
    empty_database(postgres_url)
    project = Project(make_app(tmp_path, postgres_url))
    project.register_agent()
    yield postgres_url
    project.app.close()


def test_the_store_uses_the_requested_timeouts(url: str):
    own = f"{url}{'&' if '?' in url else '?'}options=-csearch_path%3Dpublic"

    with open_existing_store(own, 1.5) as store:
        assert store
        with store.reading() as tx:
            now = {name: tx.fetch_value("SELECT current_setting(:name)", name=name) for name in LIMITS}
        with store.writing(0.25) as tx:
            writing = tx.fetch_value("SELECT current_setting('lock_timeout')")

    assert now == {
        "lock_timeout": "1500ms", "statement_timeout": "1500ms", "application_name": "deepwork hook",
        "search_path": "public",
    }  # fmt: skip
    assert writing == "250ms"


def test_locked_rows_are_reported_as_busy(url: str):
    with psycopg.connect(url) as other, open_existing_store(url, 1.0) as store:
        assert store
        other.execute("SELECT 1 FROM agents FOR UPDATE")

        with pytest.raises(StorageError, match="busy"), store.writing(0.05) as tx:
            tx.execute("UPDATE agents SET name = 'Eve'")

        with store.reading() as tx:  # the connection is as good as before
            assert tx.fetch_value("SELECT name FROM agents") == "Ada"


def test_a_failed_transaction_changes_nothing(url: str):
    with open_existing_store(url, 1.0) as store:
        assert store
        with pytest.raises(KeyError), store.writing(1.0) as tx:
            _fail(tx)
        with store.reading() as tx:
            assert tx.fetch_value("SELECT name FROM agents") == "Ada"


def test_an_unreachable_server_is_reported():
    with (
        pytest.raises(StorageError, match="cannot be reached"),
        open_existing_store("postgresql://nobody@127.0.0.1:1/none", 1.0),
    ):
        pytest.fail("There is no such store.")


def _fail(tx: Transaction) -> None:
    assert tx.execute("UPDATE agents SET name = 'Eve'") == 1
    raise KeyError
