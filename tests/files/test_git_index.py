"""Whether git tracks a file is read from its index, in every form that git writes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from deepwork.kernel.database.adoption import SUFFIXES, find_tracking_problem
from deepwork.kernel.files.git_index import find_in_index, is_tracked

STORE = ".deepwork/deepwork.db"


def run_git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    run_git(tmp_path, "init", "-q")
    (tmp_path / ".deepwork").mkdir()
    for name in (".deepwork/config.yml", STORE, "a", "z"):
        (tmp_path / name).write_text(name)
    return tmp_path


def test_a_file_is_tracked_once_it_is_added(repository: Path):
    assert is_tracked(repository / STORE) is False, "there is no index yet"
    run_git(repository, "add", "a", ".deepwork/config.yml")
    assert is_tracked(repository / STORE) is False

    run_git(repository, "add", STORE)
    assert is_tracked(repository / STORE) is True

    run_git(repository, "rm", "-q", "--cached", STORE)
    assert is_tracked(repository / STORE) is False


def test_a_file_outside_any_repository_is_not_tracked(tmp_path: Path):
    assert is_tracked(tmp_path / STORE) is False


def test_files_whose_names_only_contain_the_name_do_not_count(repository: Path):
    for name in (f"copy/{STORE}", f"x{STORE}", f"{STORE}.lock", f"{STORE}-wal-old", f"{STORE}/x"):
        path = repository / name
        if path.parent == repository / STORE:
            (repository / STORE).unlink()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
        run_git(repository, "add", name)

    assert is_tracked(repository / STORE, SUFFIXES) is False


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_beside_the_store_counts(repository: Path, suffix: str):
    (repository / (STORE + suffix)).write_text("x")
    run_git(repository, "add", STORE + suffix)

    assert is_tracked(repository / STORE, SUFFIXES) is True


def test_a_file_that_is_only_intended_to_be_added_counts(repository: Path):
    """Git writes version 3 for it, with flags of another length."""
    run_git(repository, "add", "--intent-to-add", STORE)

    assert is_tracked(repository / STORE) is True


@pytest.mark.parametrize("setting", [("index.version", "4"), ("core.splitIndex", "true")])
def test_git_is_asked_about_other_forms_of_the_index(repository: Path, setting: tuple[str, str]):
    run_git(repository, "config", *setting)
    run_git(repository, "add", "a", ".deepwork/config.yml")
    run_git(repository, "update-index", "--split-index" if "split" in setting[0] else "--refresh")
    assert is_tracked(repository / STORE) is None
    assert find_tracking_problem(repository / STORE) is None

    run_git(repository, "add", STORE)
    run_git(repository, "update-index", "--split-index" if "split" in setting[0] else "--refresh")

    assert is_tracked(repository / STORE) is not False
    assert find_tracking_problem(repository / STORE) is not None


def test_a_project_in_a_subfolder_and_a_worktree_have_the_right_index(repository: Path, tmp_path: Path):
    inner = repository / "sub" / STORE
    inner.parent.mkdir(parents=True)
    inner.write_text("x")
    run_git(repository, "add", "a", str(inner))
    run_git(repository, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "x")
    run_git(repository, "worktree", "add", "-q", str(tmp_path / "tree"))

    assert is_tracked(inner) is True
    assert is_tracked(repository / STORE) is False
    assert is_tracked(tmp_path / "tree" / "sub" / STORE) is True
    run_git(tmp_path / "tree", "rm", "-q", "--cached", f"sub/{STORE}")
    assert is_tracked(tmp_path / "tree" / "sub" / STORE) is False
    assert is_tracked(inner) is True


def test_what_is_not_an_index_is_left_to_git():
    assert find_in_index(b"garbage", b"a", [b""]) is None
    assert find_in_index(b"DIRC\0\0\0\4", b"a", [b""]) is None
