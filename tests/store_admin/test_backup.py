"""A backup is one complete file, and restoring it recreates the store."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from application import call_tool, list_events
from deepwork.delivery.store_adoption import take_over_copy
from deepwork.kernel.database import schema
from deepwork.kernel.database.opening import open_engine
from deepwork.kernel.database.processes import find_processes_with_open
from deepwork.kernel.errors import Code, DeepworkError, NotAllowed, StorageError
from deepwork.kernel.store_admin.backup import RestoreResult, back_up, restore
from deepwork.kernel.store_admin.copying import CopyResult
from store_admin.conftest import TASKS, Place, some_or_all
from store_admin.stores import (
    PATIENCE,
    corrupt_page,
    create_older_store,
    is_empty,
    open_store,
    read_all_rows,
    run_sql,
    run_until_killed_at,
    run_until_killed_at_size,
    wait_until_closed,
)

# Stores of 10,000 tasks are slow to create on a busy machine.
pytestmark = pytest.mark.timeout(600)

KINDS = ("sqlite", "postgres")
kinds = pytest.mark.parametrize("kind", KINDS)
ways = pytest.mark.parametrize(("one", "other"), [(one, other) for one in KINDS for other in KINDS])


def save_backup(location: str, file: Path) -> CopyResult:
    store = open_engine(location)
    try:
        return back_up(store, file)
    finally:
        store.close()


def restore_backup(file: Path, location: str, **how: Any) -> RestoreResult:
    store = open_engine(location)
    try:
        return restore(file, store, **how)
    finally:
        store.close()


def create_store_with_agents(folder: Path, location: str, *names: str) -> str:
    app = open_store(folder, location)
    for name in names:
        call_tool(app, "agent_register", name=name, runtime="custom")
    app.close()
    wait_until_closed(location)
    return location


def list_agents(location: str) -> list[str]:
    return sorted(row["name"] for row in read_all_rows(location)["agents"])


def list_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@kinds
def test_a_backup_is_one_file_readable_only_by_its_owner(
    filled: Callable[[str], str], tmp_path: Path, kind: str
):
    file = tmp_path / "safe" / "store.backup"

    done = save_backup(filled(kind), file)

    assert list_names(file.parent) == ["store.backup"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    found = read_all_rows(str(file))
    assert found == read_all_rows(filled(kind))
    assert done.rows == {name: len(rows) for name, rows in found.items() if name != "alembic_version"}
    with closing(sqlite3.connect(file)) as opened:
        assert opened.execute("PRAGMA journal_mode").fetchone() == ("delete",)


@ways
def test_a_restored_store_equals_the_one_backed_up(
    filled: Callable[[str], str], place: Place, tmp_path: Path, one: str, other: str
):
    file, target = tmp_path / "store.backup", place(other)
    save_backup(filled(one), file)
    before = file.read_bytes()

    done = restore_backup(file, target)

    assert (done.from_schema, done.kept) == (schema.HEAD, None)
    assert read_all_rows(target) == read_all_rows(filled(one))
    assert file.read_bytes() == before
    app = open_store(tmp_path, target)
    numbers = [event.seq for event in list_events(app)]
    call_tool(app, "agent_register", name="new", runtime="custom")
    assert [event.seq for event in list_events(app)] == [*numbers, numbers[-1] + 1]
    app.close()


@pytest.mark.thorough
@kinds
def test_ten_thousand_tasks_are_backed_up_and_restored(
    large: Callable[..., str], place: Place, tmp_path: Path, kind: str
):
    file, target = tmp_path / "store.backup", place(kind)

    assert save_backup(large(kind), file).rows["plan_tasks"] == TASKS
    assert restore_backup(file, target).copied.rows["plan_tasks"] == TASKS

    assert read_all_rows(target) == read_all_rows(large(kind))


@kinds
def test_no_file_is_overwritten(filled: Callable[[str], str], tmp_path: Path, kind: str):
    file = tmp_path / "precious"
    file.write_text("notes")
    (tmp_path / "leads-nowhere").symlink_to(tmp_path / "nothing")

    for name in ("precious", "leads-nowhere"):
        with pytest.raises(NotAllowed, match=f"{name} already exists"):
            save_backup(filled(kind), tmp_path / name)

    assert file.read_text() == "notes"
    assert list_names(tmp_path) == ["leads-nowhere", "precious"]


@kinds
def test_a_backup_is_a_consistent_snapshot_during_writes(place: Place, tmp_path: Path, kind: str):
    location, is_over, written = place(kind), threading.Event(), threading.Event()
    app = open_store(tmp_path, location)

    def write() -> None:
        while not is_over.is_set():
            call_tool(app, "agent_register", name="busy", runtime="custom")
            written.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert written.wait(PATIENCE)
        files = [tmp_path / f"{number}.backup" for number in range(5)]
        for file in files:
            save_backup(location, file)
    finally:
        is_over.set()
        writer.join()
        app.close()

    for file in files:
        found = read_all_rows(str(file))
        assert sorted(row["seq"] for row in found["events"]) == list(range(1, len(found["agents"]) + 1))
        assert found["event_sequence"] == [{"last_seq": len(found["agents"])}]


@some_or_all
@kinds
def test_a_kill_in_the_middle_leaves_no_file_with_the_final_name(
    large: Callable[..., str], tmp_path: Path, kind: str, tasks: int
):
    file, whole, store = tmp_path / "safe" / "store.backup", tmp_path / "whole.backup", large(kind, tasks)
    file.parent.mkdir()
    backup = ("db", "backup", str(file), "--db", store)
    save_backup(store, whole)

    for share in (0.1, 0.5, 0.9):
        run_until_killed_at_size(int(whole.stat().st_size * share), *backup)
        assert not file.exists()
    for stage in ("Saving", "Checking"):
        run_until_killed_at(stage, 0, *backup)
        assert not file.exists()

    save_backup(store, file)
    assert read_all_rows(str(file)) == read_all_rows(store)


def test_a_damaged_store_gives_no_backup(filled: Callable[[str], str], place: Place, tmp_path: Path):
    for table in ("messages", "agents_by_age"):  # rows, and an index that no reader of rows would miss
        location, file = place("sqlite"), tmp_path / f"{table}.backup"
        copy_locations(filled("sqlite"), location)
        corrupt_page(Path(location), table)

        with pytest.raises(StorageError, match="damaged"):
            save_backup(location, file)

        assert not file.exists()


def copy_locations(source: str, target: str) -> None:
    Path(target).parent.mkdir()
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)


@kinds
def test_a_store_with_data_is_not_replaced_without_the_flag(
    filled: Callable[[str], str], place: Place, tmp_path: Path, kind: str
):
    file, target = tmp_path / "store.backup", create_store_with_agents(tmp_path, place(kind), "Ada")
    save_backup(filled("sqlite"), file)
    before = read_all_rows(target)

    with pytest.raises(NotAllowed, match="is not empty: it holds 1 row in agents") as refused:
        restore_backup(file, target)

    assert "--replace" in refused.value.suggestion
    assert read_all_rows(target) == before


@kinds
def test_replaced_data_is_saved_and_can_be_restored(place: Place, tmp_path: Path, kind: str):
    target = create_store_with_agents(tmp_path, place(kind), "Ada", "Bob")
    file = tmp_path / "store.backup"
    save_backup(target, file)
    create_store_with_agents(tmp_path, target, "Cleo")
    replaced = read_all_rows(target)

    done = restore_backup(file, target, replace=True)

    assert list_agents(target) == ["Ada", "Bob"]
    assert done.kept is not None
    assert done.kept.parent == (Path(target).parent if kind == "sqlite" else tmp_path)
    assert read_all_rows(str(done.kept)) == replaced
    restore_backup(done.kept, target, replace=True)
    assert read_all_rows(target) == replaced


HOLDING = """
import sys, time
from deepwork.kernel.database.opening import open_engine
store = open_engine(sys.argv[1])
with store.reading() as connection:
    connection.execute("SELECT * FROM agents").fetchall()
print("open", flush=True)
sys.stdin.read()
"""


@contextmanager
def open_elsewhere(location: str) -> Iterator[int]:
    """Run another process that has the store open and does nothing."""
    program = subprocess.Popen(
        [sys.executable, "-c", HOLDING, location], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "open\n"
    yield program.pid
    program.communicate()
    wait_until_closed(location)


@kinds
def test_a_store_that_others_have_open_is_not_replaced(place: Place, tmp_path: Path, kind: str):
    target = create_store_with_agents(tmp_path, place(kind), "Ada")
    file = tmp_path / "store.backup"
    save_backup(target, file)
    create_store_with_agents(tmp_path, target, "Bob")

    with open_elsewhere(target) as number:
        with pytest.raises(NotAllowed, match="open in other processes: pid") as refused:
            restore_backup(file, target, replace=True)
        assert kind == "postgres" or str(number) in refused.value.message
        assert list_agents(target) == ["Ada", "Bob"]

    restore_backup(file, target, replace=True)
    assert list_agents(target) == ["Ada"]


def test_processes_that_have_a_file_open_are_found(tmp_path: Path):
    location = create_store_with_agents(tmp_path, str(tmp_path / "deepwork.db"), "Ada")

    with open_elsewhere(location) as number:
        assert find_processes_with_open(Path(location)) == [number]
    assert find_processes_with_open(Path(location)) == []


def test_processes_that_have_a_file_open_under_another_path_are_found(tmp_path: Path):
    path, second = tmp_path / "deepwork.db", tmp_path / "mounted" / "deepwork.db"
    path.touch()
    second.parent.mkdir()
    second.hardlink_to(path)  # as if the folder were mounted twice

    with second.open() as file, subprocess.Popen(["sleep", "100"], stdin=file) as process:
        found = find_processes_with_open(path)
        process.kill()

    assert found == [process.pid]


@kinds
def test_concurrent_readers_see_all_of_the_old_data_or_all_of_the_new(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
):
    """This protects readers where it cannot be determined who has the store open."""
    target = create_store_with_agents(tmp_path, place(kind), "old 1", "old 2")
    file = tmp_path / "store.backup"
    other = create_store_with_agents(tmp_path, place("sqlite"), "new 1", "new 2", "new 3")
    save_backup(other, file)
    reader, store = open_store(tmp_path, target), open_engine(target)

    with reader.database.reading() as tx:
        names = "SELECT name FROM agents ORDER BY name"
        before = tx.fetch_all(names)
        monkeypatch.setattr(store, "list_other_processes", lambda: None)
        restore(file, store, replace=True)
        assert tx.fetch_all(names) == before
    store.close()

    assert sorted(row["name"] for row in call_tool(reader, "agent_list")["agents"]) == [
        "new 1",
        "new 2",
        "new 3",
    ]
    reader.close()


@pytest.mark.parametrize("harm", ["a page", "the beginning", "everything"])
def test_a_damaged_store_is_set_aside_unchanged(place: Place, tmp_path: Path, harm: str):
    location = Path(create_store_with_agents(tmp_path, place("sqlite"), "Ada"))
    file = tmp_path / "store.backup"
    save_backup(str(location), file)
    if harm == "a page":
        corrupt_page(location, "agents")
    elif harm == "the beginning":
        with location.open("r+b") as raw:
            raw.write(b"\0" * 100)
    else:
        location.write_text("no database")
    damaged = location.read_bytes()

    with pytest.raises(DeepworkError):
        restore_backup(file, str(location))
    done = restore_backup(file, str(location), replace=True)

    assert done.kept is not None
    assert "damaged" in done.kept.name
    assert done.kept.read_bytes() == damaged
    assert list_agents(str(location)) == ["Ada"]
    assert stat.S_IMODE(location.stat().st_mode) == 0o600


@kinds
def test_an_older_backup_is_migrated_in_a_copy(place: Place, tmp_path: Path, kind: str):
    old, target = create_older_store("0003", tmp_path / "old.backup"), place(kind)
    before = old.read_bytes()

    done = restore_backup(old, target, adopt=take_over_copy)

    assert (done.from_schema, done.copied.schema) == ("0003", schema.HEAD)
    assert list_agents(target) == ["Old"]
    assert old.read_bytes() == before


def test_an_older_store_can_be_backed_up_without_migrating_it(tmp_path: Path):
    old = create_older_store("0003", tmp_path / "old.db")

    assert save_backup(str(old), tmp_path / "store.backup").schema == "0003"

    assert read_all_rows(str(tmp_path / "store.backup")) == read_all_rows(str(old))


@kinds
def test_a_file_that_is_not_a_backup_is_refused_and_nothing_is_created(
    filled: Callable[[str], str], place: Place, tmp_path: Path, kind: str
):
    target = place(kind)
    (tmp_path / "notes").write_text("notes")
    run_sql(str(tmp_path / "songs.db"), "CREATE TABLE songs (name)")
    save_backup(filled("sqlite"), tmp_path / "newer")
    run_sql(str(tmp_path / "newer"), "UPDATE alembic_version SET version_num = '9999'")
    save_backup(filled("sqlite"), tmp_path / "spoilt")
    corrupt_page(tmp_path / "spoilt", "messages")

    for name, complaint in [
        ("notes", "notes is not a SQLite file"),
        ("none", "There is no store at .*none"),
        ("songs.db", "songs.db is not a deepwork store"),
        ("newer", "has schema 9999"),
        ("spoilt", "spoilt is damaged"),
    ]:
        with pytest.raises(StorageError, match=complaint):
            restore_backup(tmp_path / name, target)

    assert is_empty(target)


def test_a_store_is_not_restored_into_itself(place: Place, tmp_path: Path):
    location = create_store_with_agents(tmp_path, place("sqlite"), "Ada")
    (tmp_path / "link").symlink_to(location)

    for file in (Path(location), tmp_path / "link"):
        with pytest.raises(NotAllowed, match="is the store itself"):
            restore_backup(file, location, replace=True)

    assert list_agents(location) == ["Ada"]


@kinds
def test_a_backup_can_be_written_to_a_network_share(
    filled: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
):
    file = tmp_path / "share" / "store.backup"
    on_share = str(tmp_path / "share")
    if Path("/dev/shm").is_dir():  # another file system, like a network share
        monkeypatch.setattr("tempfile.tempdir", "/dev/shm")
    for module in ("kernel.store_admin.backup", "kernel.database.sqlite"):
        monkeypatch.setattr(
            f"deepwork.{module}.find_network_file_system",
            lambda path: "nfs4" if str(path).startswith(on_share) else None,
        )

    save_backup(filled(kind), file)

    assert read_all_rows(str(file)) == read_all_rows(filled(kind))
    assert list_names(file.parent) == ["store.backup"]


@kinds
def test_a_folder_that_cannot_be_written_is_reported(filled: Callable[[str], str], tmp_path: Path, kind: str):
    (tmp_path / "file").write_text("")

    with pytest.raises(StorageError, match=r"Cannot write file/store\.backup") as refused:
        save_backup(filled(kind), tmp_path / "file" / "store.backup")

    assert refused.value.code is Code.STORAGE_ERROR
