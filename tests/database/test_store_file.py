"""Nothing but SQLite opens the files of a store, and its log stays even if something does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import deepwork
import store_guard
from deepwork.edge.server.application import Application
from deepwork.kernel.config import load_settings
from deepwork.kernel.database.sqlite import SQLite
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.errors import InvalidInput, StorageError
from deepwork.kernel.events.log import append_events
from deepwork.kernel.files.lock import is_locked, locked_files, open_unlocked
from deepwork.kernel.files.paths import confine
from deepwork.kernel.git.checksums import ChecksumSnapshotStore
from deepwork.kernel.store_admin.store_overview import load_overview
from tracking.make import complete_task, create_task, create_workflow_and_phase, get_changed_files

INSERT = "INSERT INTO lost_leases (who, what, lost_at) VALUES (:who, 'task', 1)"
FOREIGN_READER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
print(connection.execute("SELECT count(*) FROM lost_leases").fetchone()[0])
connection.close()
"""
KILLED_WRITER = """
import os, subprocess, sys
from deepwork.kernel.database.sqlite import SQLite
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.events.log import append_events

path, reader, careless = sys.argv[1], sys.argv[2], sys.argv[3:]
database = Database(SQLite(path), append_events)
def insert(who):
    with database.transaction() as tx:
        tx.execute("INSERT INTO lost_leases (who, what, lost_at) VALUES (:who, 'task', 1)", who=who)
insert("first")
for file in careless:
    open(file, "rb").close()
subprocess.run([sys.executable, "-c", reader, path], check=True)
for number in range(20):
    insert(f"later {number}")
os.kill(os.getpid(), 9)
"""


def open_database(path: Path) -> Database:
    return Database(SQLite(path), append_events)


def insert(database: Database, who: str) -> None:
    with database.transaction() as tx:
        tx.execute(INSERT, who=who)


def count_rows(database: Database) -> int:
    with database.reading() as tx:
        row = tx.fetch_one("SELECT count(*) AS number FROM lost_leases")
    assert row is not None
    return int(row["number"])


def read_as_foreign_program(path: Path) -> int:
    done = subprocess.run(
        [sys.executable, "-c", FOREIGN_READER, str(path)], check=True, capture_output=True, text=True
    )
    return int(done.stdout)


def list_files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("deepwork.db*") if ".lock" not in path.name)


@pytest.mark.parametrize("suffix", ["", "-shm", "-wal"])
def test_no_acknowledged_write_is_lost_even_if_the_process_opens_the_file_itself(tmp_path: Path, suffix: str):
    path = tmp_path / "deepwork.db"

    killed = subprocess.run(
        [sys.executable, "-c", KILLED_WRITER, str(path), FOREIGN_READER, f"{path}{suffix}"], check=False
    )

    assert killed.returncode == -9
    database = open_database(path)
    assert count_rows(database) == 21
    database.close()


def test_the_log_stays_when_a_foreign_program_closes_the_store(tmp_path: Path):
    path = tmp_path / "deepwork.db"
    database = open_database(path)
    insert(database, "one")

    with path.open("rb") as file:
        file.read(16)
    seen = read_as_foreign_program(path)

    assert seen == 1
    assert "deepwork.db-wal" in list_files(tmp_path)
    insert(database, "two")
    assert read_as_foreign_program(path) == 2
    database.close()


def test_the_last_connection_of_two_databases_in_one_process_removes_the_log(tmp_path: Path):
    first, second = open_database(tmp_path / "deepwork.db"), open_database(tmp_path / "deepwork.db")
    insert(first, "one")
    insert(second, "two")

    first.close()
    seen = read_as_foreign_program(tmp_path / "deepwork.db")
    after_one = list_files(tmp_path)
    insert(second, "three")
    second.close()

    assert (seen, "deepwork.db-wal" in after_one) == (2, True)
    assert list_files(tmp_path) == ["deepwork.db"]
    assert read_as_foreign_program(tmp_path / "deepwork.db") == 3


def test_a_closed_store_leaves_no_descriptor_and_no_mark(tmp_path: Path):
    before = len(list(Path("/proc/self/fd").iterdir())), set(locked_files)
    for number in range(5):
        database = open_database(tmp_path / "deepwork.db")
        insert(database, f"number {number}")
        database.close()

    assert (len(list(Path("/proc/self/fd").iterdir())), locked_files) == before


@pytest.mark.parametrize("suffix", ["", "-shm", "-wal"])
def test_files_of_an_open_store_cannot_be_opened_as_files_of_the_project(tmp_path: Path, suffix: str):
    database = open_database(tmp_path / "deepwork.db")
    insert(database, "one")
    (tmp_path / "link").symlink_to(f"deepwork.db{suffix}")

    for name in (f"deepwork.db{suffix}", "link"):
        with pytest.raises(PermissionError):
            open_unlocked(tmp_path / name)
        with pytest.raises(InvalidInput):
            confine(tmp_path, name)
    database.close()

    os.close(open_unlocked(tmp_path / "deepwork.db"))


def test_a_snapshot_without_git_leaves_out_a_store_in_the_project(tmp_path: Path):
    (tmp_path / "work.txt").write_text("work")
    database = open_database(tmp_path / "deepwork.db")
    insert(database, "one")
    snapshots = ChecksumSnapshotStore(tmp_path, tmp_path / "state")

    before = snapshots.take()
    insert(database, "two")
    after = snapshots.take()

    assert before.tree == after.tree
    database.close()


def test_a_task_does_not_change_the_store_that_is_in_its_tree(tmp_path: Path):
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    app = Application(load_settings(tmp_path, {"database": str(tmp_path / "work.db")}, environment={}))
    task = create_task(app, create_workflow_and_phase(app))
    (tmp_path / "work.txt").write_text("work")

    done = complete_task(app, task)

    assert get_changed_files(done) == {"added": ["work.txt"]}
    app.close()


def test_whether_a_store_exists_is_answered_without_opening_the_file_ourselves(tmp_path: Path):
    database = open_database(tmp_path / "deepwork.db")
    insert(database, "one")

    overview = load_overview(database.engine)

    assert overview is not None
    assert overview.rows["lost_leases"] == 1
    database.close()


def test_a_file_that_is_no_database_is_refused(tmp_path: Path):
    (tmp_path / "deepwork.db").write_bytes(b"hello" * 300)

    with pytest.raises(StorageError) as refused:
        SQLite(tmp_path / "deepwork.db").exists()

    assert "not a SQLite file" in refused.value.message


def test_a_log_that_was_removed_is_saved_and_the_next_calls_use_a_new_one(tmp_path: Path):
    path = tmp_path / "deepwork.db"
    database = open_database(path)
    insert(database, "one")
    path.with_name("deepwork.db-wal").unlink()

    with pytest.raises(StorageError) as refused:
        insert(database, "refused")
    insert(database, "two")

    assert refused.value.recoverable
    assert count_rows(database) == 2
    assert read_as_foreign_program(path) == 2
    database.close()


def test_a_log_that_is_removed_during_a_transaction_loses_nothing(tmp_path: Path):
    path = tmp_path / "deepwork.db"
    database = open_database(path)
    insert(database, "one")

    with database.transaction() as tx:
        tx.execute(INSERT, who="two")
        path.with_name("deepwork.db-wal").unlink()

    assert read_as_foreign_program(path) == 2
    with pytest.raises(StorageError):
        count_rows(database)
    assert count_rows(database) == 2
    database.close()


def test_a_commit_into_a_log_that_others_replaced_is_not_acknowledged(tmp_path: Path):
    path = tmp_path / "deepwork.db"
    database = open_database(path)
    insert(database, "one")

    def write_while_the_log_is_replaced() -> None:
        with database.transaction() as tx:
            tx.execute(INSERT, who="not acknowledged")
            path.with_name("deepwork.db-wal").unlink()
            path.with_name("deepwork.db-wal").write_bytes(b"of somebody else")

    with pytest.raises(StorageError):
        write_while_the_log_is_replaced()

    database.close()


def test_doctor_names_a_process_that_writes_into_a_removed_log(tmp_path: Path):
    path = tmp_path / "deepwork.db"
    database = open_database(path)
    insert(database, "one")
    path.with_name("deepwork.db-wal").unlink()

    # Another process looks, as `deepwork doctor` does.
    look = "import sys; from deepwork.kernel.database.sqlite import SQLite; print(*SQLite(sys.argv[1]).find_problems())"
    seen = subprocess.run([sys.executable, "-c", look, str(path)], check=True, capture_output=True, text=True)

    assert f"Process {os.getpid()} " in seen.stdout
    with pytest.raises(StorageError):
        insert(database, "refused")
    database.close()


def test_one_module_opens_the_files_of_stores():
    product = Path(deepwork.__file__).parent

    connecting = [path.name for path in product.rglob("*.py") if "sqlite3.connect(" in path.read_text()]

    assert connecting == ["store_file.py"]


def test_the_guard_of_the_tests_notices_a_careless_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    database = open_database(tmp_path / "deepwork.db")
    insert(database, "one")
    path = tmp_path / "deepwork.db"

    # Runs as if it were in the product: `monkeypatch` hides the frames of the tests.
    monkeypatch.setattr(store_guard, "_TESTS", "/nowhere")
    monkeypatch.setattr(store_guard, "_PRODUCT", str(Path(__file__).parent))
    path.read_bytes()

    assert {text.partition(",")[0] for text in store_guard.violations} == {str(path)}
    store_guard.violations.clear()
    assert is_locked(path.stat())
    database.close()
