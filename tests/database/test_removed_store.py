"""A store that is removed or replaced while a server uses it: no acknowledged write is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from application import call_tool, make_app
from deepwork.kernel.database import store_file
from deepwork.kernel.database.sqlite import SQLite
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.errors import StorageError
from deepwork.kernel.events.log import append_events
from deepwork.kernel.files.lock import hold_file_lock

INSERT = "INSERT INTO lost_leases (who, what, lost_at) VALUES (:who, 'task', 1)"


def open_database(path: Path) -> Database:
    return Database(SQLite(path), append_events)


def insert(database: Database, who: str) -> None:
    with database.transaction() as tx:
        tx.execute(INSERT, who=who)


def list_names(database: Database) -> list[str]:
    with database.reading() as tx:
        return [row["who"] for row in tx.fetch_all("SELECT who FROM lost_leases ORDER BY who")]


def remove_store(folder: Path) -> None:
    for file in folder.glob("deepwork.db*"):
        file.unlink()


def test_a_write_to_a_removed_store_is_refused_and_the_next_one_is_stored(tmp_path: Path):
    database = open_database(tmp_path / "deepwork.db")
    insert(database, "before")
    remove_store(tmp_path)

    with pytest.raises(StorageError, match="removed or replaced") as refused:
        insert(database, "refused")
    assert refused.value.recoverable
    insert(database, "after")

    assert list_names(database) == ["after"]
    assert list_names(open_database(tmp_path / "deepwork.db")) == ["after"]
    database.close()


def test_a_read_of_a_removed_store_is_refused(tmp_path: Path):
    database = open_database(tmp_path / "deepwork.db")
    insert(database, "before")
    remove_store(tmp_path)

    with pytest.raises(StorageError, match="removed or replaced"):
        list_names(database)

    assert list_names(database) == []
    database.close()


def test_after_a_replacement_reads_and_writes_use_the_same_file(tmp_path: Path):
    ours, other = open_database(tmp_path / "deepwork.db"), tmp_path / "other" / "deepwork.db"
    insert(ours, "before")
    theirs = open_database(other)
    insert(theirs, "replacement")
    theirs.close()
    remove_store(tmp_path)
    shutil.copy(other, tmp_path / "deepwork.db")

    with pytest.raises(StorageError, match="removed or replaced"):
        insert(ours, "refused")
    insert(ours, "after")

    assert list_names(ours) == ["after", "replacement"]
    ours.close()


@pytest.fixture
def settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Database:
    """A store in use, in a folder whose time stamp the process trusts, although it has just changed."""
    monkeypatch.setattr(store_file, "_QUIET_NS", 0)
    (tmp_path / "store").mkdir()
    database = open_database(tmp_path / "store" / "deepwork.db")
    insert(database, "before")
    list_names(database)
    stamp = (tmp_path / "store").stat().st_ctime_ns
    while time.time_ns() - stamp < 50_000_000:  # no system's clock for time stamps ticks more slowly
        time.sleep(0.01)
    return database


def test_in_a_folder_that_does_not_change_a_store_is_not_looked_at(
    settled: Database, monkeypatch: pytest.MonkeyPatch
):
    list_names(settled)
    monkeypatch.setattr(store_file, "read_file_identity", None)

    assert list_names(settled) == ["before"]

    monkeypatch.undo()
    settled.close()


@pytest.mark.parametrize("names", [("deepwork.db",), ("deepwork.db-wal", "deepwork.db-shm")])
def test_what_is_removed_from_a_folder_that_did_not_change_for_long_is_noticed(
    settled: Database, tmp_path: Path, names: tuple[str, ...]
):
    list_names(settled)
    for name in names:
        (tmp_path / "store" / name).unlink()

    with pytest.raises(StorageError, match="was removed"):
        list_names(settled)

    settled.close()


def test_what_is_removed_is_noticed_where_only_the_time_of_modification_says_so(
    settled: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    look = os.stat
    changed_at = look(tmp_path / "store").st_ctime_ns

    def stat(path: str) -> SimpleNamespace:
        found = {name: getattr(look(path), name) for name in dir(look(path)) if name.startswith("st_")}
        return SimpleNamespace(**found | {"st_ctime_ns": changed_at})

    monkeypatch.setattr(store_file, "os", SimpleNamespace(**vars(os) | {"stat": stat}))
    list_names(settled)
    (tmp_path / "store" / "deepwork.db").unlink()

    with pytest.raises(StorageError, match="was removed"):
        list_names(settled)

    monkeypatch.undo()
    settled.close()


@pytest.mark.parametrize("folder", ["store", "."])
def test_another_folder_in_the_place_of_the_stores_is_noticed(settled: Database, tmp_path: Path, folder: str):
    list_names(settled)
    moved = tmp_path / folder
    aside = tmp_path.with_name(f"{tmp_path.name}-aside")
    moved.rename(aside)
    (tmp_path / "store").mkdir(parents=True)

    with pytest.raises(StorageError, match="removed or replaced"):
        list_names(settled)

    settled.close()


def test_a_store_removed_during_a_transaction_is_noticed_at_its_commit(tmp_path: Path):
    database = open_database(tmp_path / "deepwork.db")
    insert(database, "before")

    def remove_before_commit() -> None:
        with database.transaction() as tx:
            tx.execute(INSERT, who="refused")
            remove_store(tmp_path)

    with pytest.raises(StorageError, match="removed or replaced"):
        remove_before_commit()
    insert(database, "after")
    assert list_names(database) == ["after"]
    database.close()


def test_every_acknowledged_write_is_in_some_store_that_was_there(tmp_path: Path):
    """Threads write while the store is removed again and again; the removed ones are kept aside."""
    database = open_database(tmp_path / "deepwork.db")
    insert(database, "start")
    acknowledged: set[str] = {"start"}
    stop = threading.Event()

    def write(name: str) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            try:
                insert(database, f"{name}-{number}")
            except StorageError:
                continue
            acknowledged.add(f"{name}-{number}")

    threads = [threading.Thread(target=write, args=(f"t{n}",)) for n in range(3)]
    for thread in threads:
        thread.start()
    kept: list[Path] = []
    for number in range(5):
        target = len(acknowledged) + 5
        while len(acknowledged) < target:
            time.sleep(0.001)
        aside = tmp_path / f"aside-{number}"
        aside.mkdir()
        with hold_file_lock(tmp_path / "deepwork.db.lock"):  # between two transactions, so that all files fit
            for file in [tmp_path / f"deepwork.db{suffix}" for suffix in ("", "-wal", "-shm")]:
                if file.exists():
                    file.rename(aside / file.name)
        kept.append(aside)
    stop.set()
    for thread in threads:
        thread.join()
    database.close()

    found = {name for folder in (tmp_path, *kept) for name in list_stored(folder / "deepwork.db")}
    assert acknowledged <= found


def list_stored(path: Path) -> list[str]:
    if not path.exists() or not path.stat().st_size:
        return []
    database = open_database(path)
    try:
        return list_names(database)
    finally:
        database.close()


def test_a_listener_follows_the_store_that_took_the_place(tmp_path: Path):
    database = open_database(tmp_path / "deepwork.db")
    insert(database, "before")
    listener = database.listen()
    remove_store(tmp_path)
    with pytest.raises(StorageError):
        list_names(database)
    insert(database, "after")

    assert listener.wait(5)
    assert not listener.wait(0)
    insert(database, "later")
    assert listener.wait(5)
    listener.close()
    database.close()


def test_git_clean_under_a_running_application_loses_no_acknowledged_call(tmp_path: Path):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    app = make_app(tmp_path, "")
    call_tool(app, "agent_register", name="before", runtime="custom")
    subprocess.run(["git", "clean", "-fdxq"], cwd=tmp_path, check=True)

    with pytest.raises(StorageError, match="removed or replaced") as refused:
        call_tool(app, "agent_register", name="refused", runtime="custom")
    call_tool(app, "agent_register", name="after", runtime="custom")

    assert "git clean -e .deepwork" in refused.value.suggestion
    assert [agent["name"] for agent in call_tool(app, "agent_list")["agents"]] == ["after"]
    assert (tmp_path / ".deepwork" / ".gitignore").exists()
    app.database.close()
