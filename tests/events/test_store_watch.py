"""A server notices that it can no longer read back what it wrote."""

from __future__ import annotations

import asyncio
import logging
import shutil
from pathlib import Path

import pytest

from application import call_tool, make_app
from deepwork.edge.server.application import Application
from deepwork.kernel.errors import StorageError
from deepwork.kernel.events.hub import EventHub
from deepwork.kernel.events.store_watch import StoreWatch


def register(app: Application, name: str) -> None:
    call_tool(app, "agent_register", name=name, runtime="custom")


def test_a_server_that_reads_what_it_wrote_has_no_problem(app: Application):
    watch = StoreWatch(app.database)
    register(app, "Ada")

    found = watch.check()

    assert found is None
    assert watch.problem is None


def test_a_store_that_lost_events_is_a_problem(app: Application, caplog: pytest.LogCaptureFixture):
    watch = StoreWatch(app.database)
    register(app, "Ada")
    assert watch.check() is None
    with app.database.transaction() as tx:
        tx.execute("UPDATE event_sequence SET last_seq = 0")

    with caplog.at_level(logging.ERROR, logger="deepwork"):
        watch.check()
        watch.check()

    assert isinstance(watch.problem, StorageError)
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 1


def test_an_older_copy_in_the_place_of_the_store_is_a_problem(tmp_path: Path):
    store = tmp_path / "deepwork.db"
    app = make_app(tmp_path, str(store))
    register(app, "Ada")
    app.close()
    shutil.copy(store, tmp_path / "older")
    register(app, "Ben")
    watch = StoreWatch(app.database)
    assert watch.check() is None
    app.close()
    for file in tmp_path.glob("deepwork.db*"):
        file.unlink()
    shutil.copy(tmp_path / "older", store)

    found = [watch.check() for _ in range(3)]

    assert all(isinstance(problem, StorageError) for problem in found)
    app.close()


def test_a_removed_log_is_a_problem_until_it_is_replaced(tmp_path: Path):
    app = make_app(tmp_path, str(tmp_path / "deepwork.db"))
    register(app, "Ada")
    watch = StoreWatch(app.database)
    (tmp_path / "deepwork.db-wal").unlink()

    first, second = watch.check(), watch.check()

    assert isinstance(first, StorageError)
    assert second is None
    app.close()


def test_a_store_that_was_removed_and_created_again_is_no_problem(tmp_path: Path):
    app = make_app(tmp_path, str(tmp_path / "deepwork.db"))
    register(app, "Ada")
    register(app, "Ben")
    watch = StoreWatch(app.database)
    watch.check()
    for file in tmp_path.glob("deepwork.db*"):
        file.unlink()
    with pytest.raises(StorageError):
        register(app, "refused")
    register(app, "Cleo")

    found = watch.check()

    assert found is None
    app.close()


def test_listeners_end_when_the_store_has_a_problem(tmp_path: Path):
    app = make_app(tmp_path, str(tmp_path / "deepwork.db"))
    register(app, "Ada")
    watch = StoreWatch(app.database)
    watch.check()

    async def listen() -> None:
        hub = EventHub(app.feed, watch)
        stream = hub.stream(0)
        await anext(stream)
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        watch.problem = StorageError("Events are gone.")
        hub.wake_listeners()
        with pytest.raises(StorageError):
            await waiting
        hub.close()

    asyncio.run(listen())
    app.close()
