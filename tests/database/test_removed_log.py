"""Whoever removes files of a store that is in use, nothing that was acknowledged is lost."""

from __future__ import annotations

import multiprocessing
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from database.test_store_file import count_rows, insert, open_database, read_as_foreign_program
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.errors import StorageError
from deepwork.kernel.files.lock import FileLock, try_to_lock_file

READER_IN_A_TRANSACTION = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN")
print(connection.execute("SELECT count(*) FROM lost_leases").fetchone()[0], flush=True)
sys.stdin.read()
"""
OTHER_WRITER = """
import sys
from deepwork.kernel.database.sqlite import SQLite
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.events.log import append_events

database = Database(SQLite(sys.argv[1]), append_events)
for who in sys.argv[2:]:
    with database.transaction() as tx:
        tx.execute("INSERT INTO lost_leases (who, what, lost_at) VALUES (:who, 'task', 1)", who=who)
database.close()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deepwork.db"


def remove(path: Path, *suffixes: str) -> None:
    for suffix in suffixes:
        Path(f"{path}{suffix}").unlink()


def insert_until_accepted(database: Database, who: str) -> int:
    """Insert, and return how often that was refused before."""
    for refused in range(5):
        try:
            insert(database, who)
        except StorageError:
            continue
        return refused
    raise AssertionError("the store is refused for ever")


@contextmanager
def reading_in_thread(database: Database) -> Iterator[None]:
    reads, may_end = threading.Event(), threading.Event()

    def read() -> None:
        with database.reading() as tx:
            tx.fetch_one("SELECT count(*) FROM lost_leases")
            reads.set()
            may_end.wait()

    thread = threading.Thread(target=read)
    thread.start()
    reads.wait()
    yield
    may_end.set()
    thread.join()


def test_two_processes_do_not_overwrite_each_other_after_the_shared_memory_was_removed(path: Path):
    database = open_database(path)
    insert(database, "one")
    remove(path, "-shm")
    subprocess.run([sys.executable, "-c", OTHER_WRITER, str(path), "two", "three"], check=True)

    insert_until_accepted(database, "four")

    assert count_rows(database) == 4
    database.close()
    assert read_as_foreign_program(path) == 4


@pytest.mark.parametrize("suffixes", [("-wal",), ("-wal", "-shm")])
def test_nobody_begins_another_log_while_a_process_has_the_removed_one(path: Path, suffixes: tuple[str, ...]):
    database = open_database(path)
    insert(database, "one")
    remove(path, *suffixes)

    other = subprocess.run([sys.executable, "-c", OTHER_WRITER, str(path), "other"], check=False)
    insert_until_accepted(database, "two")

    assert other.returncode == 1
    subprocess.run([sys.executable, "-c", OTHER_WRITER, str(path), "three"], check=True)
    assert count_rows(database) == 3
    database.close()


def test_a_removed_log_is_saved_although_a_foreign_program_looked_at_the_store(path: Path):
    database = open_database(path)
    insert(database, "one")
    remove(path, "-wal")
    subprocess.run([sys.executable, "-c", READER_IN_A_TRANSACTION, str(path)], check=False, input=b"")
    assert path.with_name("deepwork.db-wal").exists()

    insert_until_accepted(database, "two")

    assert count_rows(database) == 2
    database.close()


def test_a_call_that_waited_is_not_stored_in_a_file_that_nobody_checked(path: Path, tmp_path: Path):
    other = open_database(tmp_path / "other.db")
    insert(other, "of another store")
    other.close()
    database = open_database(path)
    insert(database, "one")
    held = FileLock(path.with_name("deepwork.db.lock"))
    held.acquire(timeout=30)
    outcomes: list[object] = []

    def wait_and_insert() -> None:
        try:
            insert(database, "waited")
        except StorageError as error:
            outcomes.append(error.recoverable)

    waiting = threading.Thread(target=wait_and_insert)
    waiting.start()
    while not is_waiting(path):
        pass
    remove(path, "", "-wal", "-shm")
    (tmp_path / "other.db").rename(path)
    with pytest.raises(StorageError):
        count_rows(database)
    held.release()
    waiting.join()

    assert outcomes == [True]
    assert read_as_foreign_program(path) == 1
    held.close()
    database.close()


def is_waiting(path: Path) -> bool:
    """Return whether somebody waits for the lock of the store: who waits holds its queue."""
    queue = try_to_lock_file(path.with_name("deepwork.db.lock.queue"))
    if queue is not None:
        os.close(queue)
    return queue is None


def test_a_listener_saves_a_removed_log_without_a_call(path: Path):
    database = open_database(path)
    listener = database.listen()
    insert(database, "one")
    remove(path, "-wal", "-shm")

    with pytest.raises(StorageError):  # another connection of this process still has the removed log
        listener.wait(10)

    assert read_as_foreign_program(path) == 1
    listener.close()
    database.close()


@pytest.mark.parametrize("suffixes", [("-wal",), ("-shm",), ("-wal", "-shm")])
def test_a_store_that_is_closed_saves_a_log_that_was_removed(path: Path, suffixes: tuple[str, ...]):
    database = open_database(path)
    insert(database, "one")
    remove(path, *suffixes)

    database.close()

    assert read_as_foreign_program(path) == 1


@pytest.mark.parametrize("suffixes", [("-wal",), ("-wal", "-shm")])
def test_a_removed_log_is_kept_until_nobody_reads_an_older_state(
    path: Path, suffixes: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("deepwork.kernel.database.store_file.WRITE_TIMEOUT", 0.1)
    database = open_database(path)
    insert(database, "one")
    reader = subprocess.Popen(
        [sys.executable, "-c", READER_IN_A_TRANSACTION, str(path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert reader.stdout is not None
    reader.stdout.readline()
    insert(database, "two")
    remove(path, *suffixes)

    for _ in range(2):
        with pytest.raises(StorageError) as refused:
            insert(database, "refused")
        assert refused.value.recoverable
    reader.kill()  # so that it cannot save the log itself
    reader.communicate()
    insert_until_accepted(database, "three")

    assert count_rows(database) == 3
    database.close()
    assert read_as_foreign_program(path) == 3


def test_a_call_that_was_reading_when_the_log_was_removed_does_not_block_the_store(path: Path):
    database = open_database(path)
    insert(database, "one")

    with reading_in_thread(database):
        remove(path, "-wal")
        with pytest.raises(StorageError):
            insert(database, "refused")
    insert_until_accepted(database, "two")

    assert count_rows(database) == 2
    database.close()


def test_a_connection_that_nobody_closed_does_not_block_the_store(path: Path):
    database = open_database(path)
    insert(database, "one")
    database.engine.get_open_file().connect(query_only=True)  # type: ignore[attr-defined]
    remove(path, "-wal")

    insert_until_accepted(database, "two")

    assert count_rows(database) == 2
    database.close()


def test_a_process_without_free_descriptors_is_refused_and_goes_on_later(path: Path):
    database = open_database(path)
    insert(database, "one")
    database.close()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    refused = 0

    for free in range(12):
        highest = max(int(entry.name) for entry in Path("/proc/self/fd").iterdir())
        blocks = [os.dup(0) for _ in range(highest)]
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(blocks) + 1 + free, limits[1]))
        try:
            count_rows(database)
        except StorageError:
            refused += 1
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            for block in blocks:
                os.close(block)
        insert(database, f"free {free}")
        assert "-wal" in {file.name.removeprefix("deepwork.db") for file in path.parent.iterdir()}
        path.open("rb").close()  # drops SQLite's own locks
        assert read_as_foreign_program(path) == 2 + free
        insert(database, f"kept {free}")
        with database.transaction() as tx:
            tx.execute("DELETE FROM lost_leases WHERE who = :who", who=f"kept {free}")
        database.close()

    assert refused > 0


def test_a_forked_child_that_closes_the_store_leaves_the_locks_of_its_parent(path: Path):
    database = open_database(path)
    insert(database, "one")
    before = list_open_locks(path)

    child = multiprocessing.get_context("fork").Process(target=database.close)
    child.start()
    child.join()

    assert child.exitcode == 0
    assert list_open_locks(path) == before
    database.close()


def list_open_locks(path: Path) -> list[str]:
    numbers = {str(Path(f"{path}{suffix}").stat().st_ino) for suffix in ("", "-shm")}
    lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return sorted(" ".join(line[1:]) for line in lines if line[5].rpartition(":")[2] in numbers)
