"""A closed store leaves no file open and can be used again."""

from __future__ import annotations

from pathlib import Path

from application import call_tool, make_app
from deepwork.kernel.files.lock import FileLock


def list_open_files(folder: Path) -> set[str]:
    """List the files below a folder that this process has open."""
    found = set()
    for number in Path("/dev/fd").iterdir():
        try:
            found.add(str(number.readlink()))
        except OSError:  # the descriptor used for the listing itself
            continue
    return {path for path in found if path.startswith(str(folder))}


def test_a_closed_application_leaves_no_file_open(tmp_path: Path):
    app = make_app(tmp_path, str(tmp_path / "deepwork.db"))
    call_tool(app, "agent_register", name="Ada", runtime="codex")
    assert list_open_files(tmp_path)

    app.close()

    assert list_open_files(tmp_path) == set()
    assert call_tool(app, "agent_list")["agents"]
    app.close()
    assert list_open_files(tmp_path) == set()


def test_a_held_lock_stays_held_when_it_is_closed(tmp_path: Path):
    lock, other = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")

    with lock.hold():
        lock.close()
        assert list_open_files(tmp_path)

    with other.hold(timeout=100):
        assert list_open_files(tmp_path)
    for each in (lock, other):
        each.close()
    assert list_open_files(tmp_path) == set()
