"""A file is written completely or not at all."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from deepwork.kernel.database.sqlite import SQLite
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.errors import Code, StorageError
from deepwork.kernel.events.log import append_events
from deepwork.kernel.files import private
from deepwork.kernel.files.private import write_atomically

WRITER = "from pathlib import Path; from deepwork.kernel.files.private import write_atomically; import sys\n"


def list_names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_the_new_content_replaces_the_old(tmp_path: Path) -> None:
    write_atomically(tmp_path / "state", b"old")
    write_atomically(tmp_path / "state", b"new")

    assert (tmp_path / "state").read_bytes() == b"new"
    assert list_names(tmp_path) == ["state"]


def test_the_names_of_new_folders_and_of_the_users_key_are_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: set[str] = set()
    flush = private.flush

    def note(descriptor: int) -> None:
        flushed.add(os.readlink(f"/proc/self/fd/{descriptor}"))  # noqa: PTH115
        flush(descriptor)

    monkeypatch.setattr(private, "flush", note)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path))  # where no other test made a key
    database = Database(SQLite(tmp_path / "new" / "project" / ".deepwork" / "deepwork.db"), append_events)

    with database.transaction():
        pass

    new = {"", "/new", "/new/project", "/config", "/config/deepwork"}
    assert flushed >= {f"{tmp_path}{folder}" for folder in new}
    database.close()


def test_a_file_is_readable_only_by_its_owner_by_default(tmp_path: Path) -> None:
    write_atomically(tmp_path / "private", b"")
    write_atomically(tmp_path / "public", b"", mode=0o644)

    assert (tmp_path / "private").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "public").stat().st_mode & 0o777 == 0o644


def test_the_previous_content_is_kept_on_request(tmp_path: Path) -> None:
    for content in (b"1", b"2", b"3"):
        write_atomically(tmp_path / "state", content, keep_previous=True)

    assert (tmp_path / "state").read_bytes() == b"3"
    assert (tmp_path / "state.prev").read_bytes() == b"2"
    assert list_names(tmp_path) == ["state", "state.prev"]


def test_a_crash_between_keeping_and_replacing_leaves_no_files_behind(tmp_path: Path) -> None:
    write_atomically(tmp_path / "state", b"1")
    os.link(tmp_path / "state", tmp_path / "state.prev")

    write_atomically(tmp_path / "state", b"2", keep_previous=True)

    assert (tmp_path / "state.prev").read_bytes() == b"1"
    assert list_names(tmp_path) == ["state", "state.prev"]


def test_an_existing_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "state").symlink_to(tmp_path / "precious")

    write_atomically(tmp_path / "state", b"new", keep_previous=True)

    assert (tmp_path / "precious").read_text() == "precious"
    assert not (tmp_path / "state").is_symlink()


def test_a_long_name_can_be_written_too(tmp_path: Path) -> None:
    path = tmp_path / ("é" * 120)

    write_atomically(path, b"x")

    assert path.read_bytes() == b"x"


@pytest.mark.parametrize(
    ("number", "code"), [(errno.ENOSPC, Code.STORAGE_FULL), (errno.EIO, Code.STORAGE_ERROR)]
)
def test_a_failed_sync_leaves_the_old_content_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: Code
) -> None:
    path = tmp_path / "state"
    write_atomically(path, b"old")

    def fail(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StorageError) as failed:
        write_atomically(path, b"new")

    assert failed.value.code == code
    assert path.name in failed.value.message
    assert path.read_bytes() == b"old"
    assert list_names(tmp_path) == ["state"]


def test_a_missing_directory_is_named_in_the_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    for nowhere in ("nowhere", "file"):
        with pytest.raises(StorageError, match=nowhere):
            write_atomically(tmp_path / nowhere / "state", b"")


@pytest.mark.needs("strace")
def test_killed_at_any_system_call_the_file_holds_the_old_or_the_new(tmp_path: Path) -> None:
    """kill -9 at each write, fsync, link and rename in turn."""
    seen = set()
    for call in ("write", "fsync", "link,linkat", "rename,renameat,renameat2", "unlink,unlinkat"):
        for number in range(1, 4):
            path = tmp_path / f"{call}-{number}" / "state"
            path.parent.mkdir()
            write_atomically(path, b"older", keep_previous=True)
            write_atomically(path, b"old", keep_previous=True)
            killed = write_under_strace(path, f"{call}:signal=KILL:when={number}")
            seen.add((killed, path.read_bytes(), path.with_name("state.prev").read_bytes()))

    assert {content for _, content, _ in seen} == {b"old", b"new"}
    assert seen <= {
        (True, b"old", b"older"),
        (True, b"old", b"old"),
        (True, b"new", b"old"),
        (False, b"new", b"old"),
    }


def write_under_strace(path: Path, fault: str) -> bool:
    """Write b"new"; true if the fault struck."""
    script = WRITER + f"write_atomically(Path({str(path)!r}), b'new', keep_previous=True)"
    command = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"inject={fault}"]
    source = str(Path(private.__file__).parents[3])
    done = subprocess.run(
        [*command, sys.executable, "-S", "-c", script],
        env={"PYTHONPATH": source, "PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
    )
    return done.returncode != 0


def test_the_content_is_synced_before_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    sync, rename = os.fsync, Path.replace

    def noted_sync(descriptor: int) -> None:
        calls.append(get_kind(descriptor))
        sync(descriptor)

    def noted_rename(path: Path, to: Path) -> Path:
        calls.append("rename")
        return rename(path, to)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(Path, "replace", noted_rename)

    write_atomically(tmp_path / "state", b"x")

    assert calls == ["sync file", "rename", "sync directory"]


def get_kind(descriptor: int) -> str:
    return "sync directory" if Path(f"/proc/self/fd/{descriptor}").resolve().is_dir() else "sync file"
