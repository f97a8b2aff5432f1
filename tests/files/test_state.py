"""The state folder of a project, which a clone can bring along."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

import pytest

from deepwork.kernel.errors import StorageError
from deepwork.kernel.files.private import make_state_folder

FORMER = """\
# Written by deepwork: definitions and settings belong to the project, everything else to this machine.
*
!.gitignore
!checks.yml
!config.yml
!jobs/
!jobs/**
!templates/
!templates/**
"""


def run_git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout


def list_untracked(folder: Path) -> list[str]:
    return run_git(folder, "ls-files", "--others", "--exclude-standard").split()


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


def test_git_does_not_list_the_folder_before_it_has_a_definition(tmp_path: Path):
    run_git(tmp_path, "init", "-q")
    make_state_folder(folder := tmp_path / ".deepwork")
    (folder / "deepwork.db").write_text("")

    assert list_untracked(tmp_path) == []


@pytest.mark.parametrize("name", ["checks.yml", "config.yml", "jobs/a/job.yml", "templates/b.yml"])
def test_git_lists_a_definition_and_nothing_else(tmp_path: Path, name: str):
    run_git(tmp_path, "init", "-q")
    make_state_folder(folder := tmp_path / ".deepwork")
    (folder / name).parent.mkdir(parents=True, exist_ok=True)

    (folder / name).write_text("")

    assert list_untracked(tmp_path) == [f".deepwork/{name}"]


@pytest.mark.parametrize("former", [FORMER, FORMER.replace("!checks.yml\n", "")])
def test_a_gitignore_of_an_earlier_version_is_replaced(tmp_path: Path, former: str):
    run_git(tmp_path, "init", "-q")
    (folder := tmp_path / ".deepwork").mkdir()
    (folder / ".gitignore").write_text(former)
    (folder / "checks.yml").write_text("")

    make_state_folder(folder)

    assert list_untracked(tmp_path) == [".deepwork/checks.yml"]


def test_a_gitignore_that_somebody_changed_or_committed_stays(tmp_path: Path):
    run_git(tmp_path, "init", "-q")
    for name, text in (("changed", f"{FORMER}!mine\n"), ("committed", FORMER)):
        (folder := tmp_path / name / ".deepwork").mkdir(parents=True)
        (folder / ".gitignore").write_text(text)
    run_git(tmp_path, "add", "committed")

    make_state_folder(tmp_path / "changed/.deepwork")
    make_state_folder(tmp_path / "committed/.deepwork")

    assert (tmp_path / "changed/.deepwork/.gitignore").read_text() == f"{FORMER}!mine\n"
    assert (tmp_path / "committed/.deepwork/.gitignore").read_text() == FORMER


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


@pytest.mark.parametrize(
    "name", ["checks", "hooks", "runs", "snapshots", "tmp", "tmp/review_requests", "snapshots/0", "worktrees"]
)
def test_a_folder_of_ours_that_is_a_link_is_refused(tmp_path: Path, name: str):
    folder = tmp_path / ".deepwork"
    (folder / name).parent.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (folder / name).symlink_to(tmp_path / "elsewhere")

    with pytest.raises(StorageError, match=f"{name} is a link"):
        make_state_folder(folder)
