from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from application import call_tool, make_app
from deepwork.edge.server.application import Application
from deepwork.kernel.database import schema
from deepwork.kernel.database.existing_store import open_existing_store
from deepwork.kernel.database.schema import find_network_file_system
from deepwork.kernel.database.sqlite import SQLite, has_wal_reset_fix
from deepwork.kernel.database.wakeups import WakeupChannel
from deepwork.kernel.errors import Code, StorageError


def open_app(folder: Path) -> Application:
    return make_app(folder, str(folder / "deepwork.db"))


@pytest.fixture
def used(tmp_path: Path) -> Path:
    """A database file with one agent in it."""
    app = open_app(tmp_path)
    call_tool(app, "agent_register", name="Ada", runtime="custom")
    app.close()
    return tmp_path / "deepwork.db"


@pytest.mark.parametrize(
    ("version", "is_safe"),
    [
        ((3, 40, 1), False), ((3, 44, 5), False), ((3, 44, 6), True), ((3, 50, 4), False), ((3, 50, 7), True),
        ((3, 51, 2), False), ((3, 51, 3), True), ((3, 53, 4), True), ((4, 0, 0), True),
    ],
)  # fmt: skip
def test_versions_with_the_wal_reset_bug_are_detected(version: tuple[int, ...], is_safe: bool):
    assert has_wal_reset_fix(version) is is_safe


def test_every_connection_is_durable_and_strict(tmp_path: Path):
    app = open_app(tmp_path)
    with app.database.reading() as tx:
        assert tx.fetch_value("PRAGMA journal_mode") == "wal"
        assert tx.fetch_value("PRAGMA synchronous") == 2
        assert tx.fetch_value("PRAGMA foreign_keys") == 1
        assert tx.fetch_value("PRAGMA trusted_schema") == 0
    app.close()


def test_only_the_owner_can_read_the_file(used: Path):
    assert stat.S_IMODE(used.stat().st_mode) == 0o600


def test_a_file_of_a_newer_deepwork_is_refused_and_not_changed(used: Path):
    with contextlib.closing(sqlite3.connect(used)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()
    before = used.read_bytes()

    with pytest.raises(StorageError, match=rf"9999.*{schema.HEAD}") as refused:
        call_tool(open_app(used.parent), "agent_list")

    assert "Update deepwork" in refused.value.suggestion
    assert used.read_bytes() == before


def test_the_head_is_the_newest_migration():
    versions = Path(schema.__file__).parent / "migrations" / "versions"

    assert max(path.name[:4] for path in versions.glob("[0-9]*.py")) == schema.HEAD


def test_a_file_that_is_not_a_database_is_reported_and_not_changed(tmp_path: Path):
    file = tmp_path / "deepwork.db"
    file.write_bytes(b"precious notes, not a database" * 100)

    with pytest.raises(StorageError, match="damaged") as refused:
        call_tool(open_app(tmp_path), "agent_list")

    assert "deepwork.db" in refused.value.message
    assert file.read_bytes().startswith(b"precious notes")


def test_a_second_name_for_the_file_is_refused(used: Path):
    os.link(used, used.with_name("other.db"))

    with pytest.raises(StorageError, match="hard link"):
        call_tool(open_app(used.parent), "agent_list")


MOUNTS = """\
22 1 0:21 / / rw - ext4 /dev/sda rw
30 22 0:40 / /home rw - nfs4 server:/home rw
31 22 0:41 / /mnt/with\\040space rw - fuse.sshfs x rw
32 30 0:42 / /home/local rw - xfs /dev/sdb rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/srv/p/deepwork.db", None),
        ("/home/u/deepwork.db", "nfs4"),
        ("/mnt/with space/deepwork.db", "fuse.sshfs"),
        ("/home/local/deepwork.db", None),
        ("/homes/deepwork.db", None),
    ],
)
def test_network_file_systems_are_detected_by_the_nearest_mount(path: str, kind: str | None):
    assert find_network_file_system(Path(path), MOUNTS) == kind


def test_a_network_location_is_refused_with_a_suggestion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("deepwork.kernel.database.sqlite.find_network_file_system", lambda path: "nfs4")

    with pytest.raises(StorageError, match="nfs4") as refused:
        call_tool(open_app(tmp_path), "agent_list")

    assert "DEEPWORK_DATABASE_URL" in refused.value.suggestion
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_reported_and_nothing_is_lost(used: Path):
    app = open_app(used.parent)
    with app.database.reading() as tx:
        pages = int(tx.fetch_value("PRAGMA page_count"))
    with app.database.transaction() as tx:
        tx.fetch_value(f"PRAGMA max_page_count = {pages}")

    with pytest.raises(StorageError) as full:
        call_tool(app, "agent_register", name="Bob", runtime="custom", metadata={"x": "y" * 100_000})

    assert (full.value.code, full.value.recoverable) == (Code.STORAGE_FULL, True)
    assert call_tool(app, "agent_list")["total"] == 1
    app.close()


def test_doctor_finds_no_problems_in_an_intact_file(used: Path):
    engine = SQLite(used)

    assert list(engine.find_problems()) == []
    assert dict(engine.describe())["schema"] == schema.HEAD
    engine.close()


def test_doctor_reports_damage(used: Path):
    used.with_name("deepwork.db-wal").unlink(missing_ok=True)
    damaged = bytearray(used.read_bytes())
    damaged[4096 * 2 : 4096 * 4] = b"\xff" * 8192
    used.write_bytes(damaged)

    engine = SQLite(used)
    assert any("damaged" in problem or "cannot be read" in problem for problem in engine.find_problems())
    engine.close()


def test_a_location_that_is_not_a_file_is_refused_and_not_changed(tmp_path: Path):
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o755)

    for place in (folder, Path("/dev/null")):
        before = place.stat().st_mode
        with pytest.raises(StorageError, match="not a regular file"):
            call_tool(make_app(tmp_path, str(place)), "agent_list")
        assert place.stat().st_mode == before
        assert not place.with_name(place.name + ".lock").exists()


@pytest.fixture
def runtime() -> Iterator[Path]:
    """A folder whose path leaves room for the names of sockets, which may have about 100 characters."""
    with TemporaryDirectory(prefix="dw-") as folder:
        yield Path(folder)


def test_waking_other_processes_removes_only_dead_sockets(
    tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("deepwork.kernel.database.wakeups.get_runtime_folder", lambda: runtime)
    hints = WakeupChannel(tmp_path / "deepwork.db")
    receiver = hints.open_receiver()
    assert receiver is not None
    [socket] = hints.folder.iterdir()
    receiver.close()
    precious = hints.folder / "precious"
    precious.write_text("mine")

    hints.send()

    assert not socket.exists()
    assert precious.read_text() == "mine"


def test_there_is_no_folder_for_hints_while_nobody_listens(
    tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("deepwork.kernel.database.wakeups.get_runtime_folder", lambda: runtime)
    hints = WakeupChannel(tmp_path / "deepwork.db")
    one, other = hints.open_receiver(), hints.open_receiver()
    assert one is not None
    assert other is not None

    hints.close_receiver(one)
    assert hints.folder.exists()
    hints.send()
    assert other.recv(16)
    hints.close_receiver(other)

    assert not hints.folder.exists()
    again = hints.open_receiver()
    assert again is not None
    hints.close_receiver(again)


def test_a_refused_call_keeps_its_connection_and_a_failed_statement_does_not(tmp_path: Path):
    def insert_then(act: Callable[[], object]) -> None:
        with engine.writing() as used:
            used.execute("INSERT INTO lost_leases (who, what, lost_at) VALUES ('a', 'b', 1)")
            act()
            used.execute("no statement")

    engine = SQLite(tmp_path / "deepwork.db")
    engine.prepare()
    writers = engine.get_open_file().writers
    [connection] = writers

    with pytest.raises(KeyError):
        insert_then(dict[str, int]().popitem)
    assert list(writers) == [connection]
    with pytest.raises(Exception, match="syntax"):
        insert_then(lambda: None)

    assert list(writers) == []
    with engine.reading() as used:
        assert used.execute("SELECT * FROM lost_leases").fetchall() == []
    engine.close()


def test_no_process_is_woken_through_a_planted_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    runtime, victim = tmp_path / "runtime", tmp_path / "victim"
    runtime.mkdir(mode=0o700)
    victim.mkdir(mode=0o700)
    (victim / "a.txt").write_text("mine")
    monkeypatch.setattr("deepwork.kernel.database.wakeups.get_runtime_folder", lambda: runtime)
    hints = WakeupChannel(tmp_path / "deepwork.db")
    hints.folder.symlink_to(victim)

    hints.send()

    assert hints.open_receiver() is None
    assert (victim / "a.txt").read_text() == "mine"


def test_a_database_of_another_program_is_refused_and_stays_as_it_is(tmp_path: Path):
    path = tmp_path / "places.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
        connection.commit()
    before = path.read_bytes()

    with pytest.raises(StorageError, match="another program: it has the tables 'bookmarks'"):
        SQLite(path).prepare()

    assert path.read_bytes() == before
    assert not path.with_name(f"{path.name}-wal").exists()


@pytest.mark.parametrize("linked", ["file", "folder"])
def test_a_store_behind_a_link_is_refused(tmp_path: Path, linked: str):
    real = tmp_path / "elsewhere" / "deepwork.db"
    engine = SQLite(real)
    engine.prepare()
    engine.close()
    folder = tmp_path / ".deepwork"
    if linked == "file":
        folder.mkdir()
        (folder / "deepwork.db").symlink_to(real)
    else:
        folder.symlink_to(real.parent)

    with pytest.raises(StorageError, match="is a link"):
        SQLite(folder / "deepwork.db").prepare()
    with (
        pytest.raises(StorageError, match="is a link"),
        open_existing_store(str(folder / "deepwork.db"), 0.1),
    ):
        pass


def test_a_leftover_log_is_not_applied_to_a_new_store(tmp_path: Path):
    old = SQLite(tmp_path / "deepwork.db")
    old.prepare()
    with old.writing() as connection:
        connection.execute("INSERT INTO lost_leases (who, what, lost_at) VALUES ('old', 'task', 1)")
    (tmp_path / "deepwork.db").unlink()

    new = SQLite(tmp_path / "deepwork.db")
    new.prepare()

    with new.reading() as connection:
        assert connection.execute("SELECT who FROM lost_leases").fetchall() == []
    new.close()
    old.close()


def test_a_file_that_cannot_be_created_is_a_storage_error(tmp_path: Path):
    (tmp_path / "deepwork.db-wal").mkdir()  # cannot be removed like a file

    with pytest.raises(StorageError, match="Cannot create"):
        SQLite(tmp_path / "deepwork.db").prepare()
