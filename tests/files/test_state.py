"""The state folder of a project, which a clone can bring along."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from deepwork.errors import StorageError
from deepwork.files.state import make_state_folder


def get_mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_folder_is_for_its_owner_only(tmp_path: Path):
    make_state_folder(tmp_path / ".deepwork")

    assert get_mode(tmp_path / ".deepwork") == 0o700
    assert "config.yml" in (tmp_path / ".deepwork" / ".gitignore").read_text()


def test_a_folder_that_came_with_a_clone_is_closed_to_others(tmp_path: Path):
    folder = tmp_path / ".deepwork"
    folder.mkdir(mode=0o755)
    (folder / ".gitignore").write_text("mine\n")

    make_state_folder(folder)

    assert get_mode(folder) == 0o700
    assert (folder / ".gitignore").read_text() == "mine\n"


def test_a_folder_that_is_a_link_is_refused(tmp_path: Path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".deepwork").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(StorageError, match="is a link"):
        make_state_folder(tmp_path / ".deepwork")

    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_dangling_link_creates_no_file_outside(tmp_path: Path):
    folder = tmp_path / ".deepwork"
    folder.mkdir()
    (folder / ".gitignore").symlink_to(tmp_path / "outside")

    make_state_folder(folder)

    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize("name", ["hooks", "snapshots", "tmp", "worktrees"])
def test_a_folder_of_ours_that_is_a_link_is_refused(tmp_path: Path, name: str):
    folder = tmp_path / ".deepwork"
    folder.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (folder / name).symlink_to(tmp_path / "elsewhere")

    with pytest.raises(StorageError, match=f"{name} is a link"):
        make_state_folder(folder)
