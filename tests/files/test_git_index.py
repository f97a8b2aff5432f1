"""Whether git tracks a file is read from its index, in every form that git writes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from deepwork.kernel.database.seals import SUFFIXES, find_tracking_problem
from deepwork.kernel.files.repositories import IndexFacts, find_in_index, is_tracked, read_index_facts

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


HASH_BYTES = 20


def mark_unchanged(repository: Path) -> None:
    run_git(repository, "update-index", "--assume-unchanged", "a")


def mark_not_checked_out(repository: Path) -> None:
    run_git(repository, "update-index", "--skip-worktree", "a")


def split_index(repository: Path) -> None:
    mark_unchanged(repository)
    run_git(repository, "update-index", "--split-index")


def write_newest_version(repository: Path) -> None:
    mark_unchanged(repository)
    run_git(repository, "update-index", "--index-version", "4")


@pytest.mark.parametrize("hide", [mark_unchanged, mark_not_checked_out, split_index, write_newest_version])
def test_an_index_that_hides_changes_is_noticed(repository: Path, hide: Callable[[Path], None]):
    run_git(repository, "add", "a", "z")
    hide(repository)

    assert read_index_facts((repository / ".git/index").read_bytes(), HASH_BYTES).may_hide_changes


def test_an_index_that_hides_nothing_is_followed_to_its_end(repository: Path):
    folders = "/".join(["long" * 50] * 19)
    for name in ("x", "exact-8", "with space", f"{folders}/{'n' * 100}", f"{folders}/{'n' * 200}"):
        blob = run_git(repository, "hash-object", "-w", "a").strip()
        run_git(repository, "update-index", "--add", "--cacheinfo", f"100644,{blob},{name}")
    index = repository / ".git/index"
    assert not read_index_facts(index.read_bytes(), HASH_BYTES).may_hide_changes

    run_git(repository, "commit", "-q", "-m", "one")
    run_git(repository, "config", "core.untrackedCache", "true")
    run_git(repository, "status")

    assert not read_index_facts(index.read_bytes(), HASH_BYTES).may_hide_changes
    run_git(repository, "update-index", "--assume-unchanged", f"{folders}/{'n' * 200}")
    assert read_index_facts(index.read_bytes(), HASH_BYTES).may_hide_changes


def test_an_index_names_the_tree_that_it_is_of_until_it_changes(repository: Path):
    index = repository / ".git/index"
    (repository / "folder").mkdir()
    (repository / "folder/a").write_text("a")
    run_git(repository, "add", "a", "z", "folder")
    assert read_index_facts(index.read_bytes(), HASH_BYTES).tree is None

    run_git(repository, "commit", "-q", "-m", "one")

    tree = run_git(repository, "rev-parse", "HEAD^{tree}").strip()
    assert read_index_facts(index.read_bytes(), HASH_BYTES) == IndexFacts(False, tree)
    (repository / "folder/a").write_text("b")
    run_git(repository, "add", "folder")
    assert read_index_facts(index.read_bytes(), HASH_BYTES).tree is None
    assert run_git(repository, "write-tree").strip() != tree
    assert read_index_facts(index.read_bytes(), HASH_BYTES).tree == run_git(repository, "write-tree").strip()


def test_hashes_of_another_length_are_followed_too(tmp_path: Path):
    run_git(tmp_path, "init", "-q", "--object-format=sha256")
    (tmp_path / "a").write_text("a")
    run_git(tmp_path, "add", "a")
    tree = run_git(tmp_path, "write-tree").strip()
    content = (tmp_path / ".git/index").read_bytes()

    assert read_index_facts(content, 32) == IndexFacts(False, tree)
    assert read_index_facts(content, HASH_BYTES).may_hide_changes


@pytest.mark.parametrize("length", range(0, 160, 7))
def test_an_index_that_is_cut_off_may_hide_anything(repository: Path, length: int):
    run_git(repository, "add", "a", "z")

    assert read_index_facts((repository / ".git/index").read_bytes()[:length], HASH_BYTES).may_hide_changes


def test_an_index_that_says_it_has_more_may_hide_anything(repository: Path):
    run_git(repository, "add", "a", "z")
    content = (repository / ".git/index").read_bytes()

    assert read_index_facts(content[:8] + b"\xff" * 4 + content[12:], HASH_BYTES).may_hide_changes
