"""Conflicts are predicted without merging."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deepwork.kernel.errors import GitError, InvalidInput, NotAllowed
from deepwork.kernel.git.branch_merges import find_merge_conflicts
from deepwork.kernel.git.command import Git
from git.changes_project import ENVIRONMENT, Project, create_project
from git.worktrees_project import create_started_project, list_objects, read_state

ODD = ["sp ace.py", "new\nline.py", "é日本.py", os.fsdecode(b"\xff.py"), "-dash.py"]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return create_started_project(tmp_path / "project")


def commit_on_branch(project: Project, branch: str, *names: str, content: str) -> None:
    project.git("switch", "-q", "-c", branch, "main")
    project.commit(*names, content=content)
    project.git("switch", "-q", "main")


def test_branches_that_touch_different_files_merge_cleanly(project: Project) -> None:
    commit_on_branch(project, "ours", "a.py", content="a\n")
    commit_on_branch(project, "theirs", "b.py", content="b\n")

    assert find_merge_conflicts(project.safe_git, "ours", "theirs") == ()
    assert find_merge_conflicts(project.safe_git, "ours", "main") == ()


def test_every_conflicting_path_is_listed_whatever_its_name(project: Project) -> None:
    project.commit(*ODD)
    commit_on_branch(project, "ours", "kept.py", "both.py", "a.py", *ODD, content="ours\n")
    commit_on_branch(project, "theirs", "kept.py", "both.py", "b.py", *ODD, content="theirs\n")

    assert find_merge_conflicts(project.safe_git, "ours", "theirs") == tuple(
        sorted(["kept.py", "both.py", *ODD])
    )


def test_a_file_deleted_here_and_changed_there_is_in_conflict(project: Project) -> None:
    commit_on_branch(project, "theirs", "removed.py", content="changed\n")
    project.remove("removed.py")
    project.commit()

    assert find_merge_conflicts(project.safe_git, "main", "theirs") == ("removed.py",)


def test_predicting_conflicts_changes_nothing(project: Project) -> None:
    commit_on_branch(project, "ours", "kept.py", content="ours\n")
    commit_on_branch(project, "theirs", "kept.py", "b.py", content="theirs\n")
    project.write("edited.py", "new.py")
    before = read_state(project), list_objects(project), project.git("for-each-ref")

    find_merge_conflicts(project.safe_git, "ours", "theirs")

    assert (read_state(project), list_objects(project), project.git("for-each-ref")) == before


def test_conflicts_are_found_in_a_folder_with_an_odd_name(tmp_path: Path) -> None:
    project = create_started_project(tmp_path / 'co:lon "quoted" back\\slash\nline')
    commit_on_branch(project, "ours", "kept.py", content="ours\n")
    commit_on_branch(project, "theirs", "kept.py", content="theirs\n")

    assert find_merge_conflicts(project.safe_git, "ours", "theirs") == ("kept.py",)


def test_unrelated_histories_are_an_error(project: Project) -> None:
    project.git("branch", "other", project.git("commit-tree", "-m", "other", "HEAD^{tree}"))

    with pytest.raises(GitError, match="no common ancestor"):
        find_merge_conflicts(project.safe_git, "main", "other")


@pytest.mark.parametrize("name", ["missing", "-x", "main..main"])
def test_a_missing_branch_is_named_in_the_error(project: Project, name: str) -> None:
    with pytest.raises(InvalidInput, match=name):
        find_merge_conflicts(project.safe_git, "main", name)


def test_before_the_first_commit_there_is_nothing_to_merge(tmp_path: Path) -> None:
    with pytest.raises(NotAllowed, match="no commit yet"):
        find_merge_conflicts(create_project(tmp_path / "empty").safe_git, "HEAD", "HEAD")


def test_a_submodule_moved_on_both_sides_is_in_conflict(project: Project, tmp_path: Path) -> None:
    inner = create_started_project(tmp_path / "inner")
    project.git("submodule", "--quiet", "add", str(inner.root), "sub")
    project.commit()
    sub = project.below("sub")
    for branch in ("ours", "theirs"):
        sub.git("checkout", "-q", "--detach", "main")
        sub.commit(f"{branch}.py")
        commit_on_branch(project, branch, f"{branch}.py", content="x\n")

    assert find_merge_conflicts(project.safe_git, "ours", "theirs") == ("sub",)


def test_an_old_git_is_reported(project: Project, tmp_path: Path) -> None:
    old = tmp_path / "old-git"
    old.write_text(
        '#!/bin/sh\ncase "$*" in version) echo git version 2.37.9;; *merge-tree*) exit 129;; *) exec git "$@";; esac\n'
    )
    old.chmod(0o755)

    with pytest.raises(GitError, match=r"needs git 2\.38 or newer; this is git 2\.37\.9"):
        find_merge_conflicts(Git(project.root, environment=ENVIRONMENT, program=str(old)), "main", "main")


def test_another_failure_is_reported_unchanged(project: Project, tmp_path: Path) -> None:
    odd = tmp_path / "odd-git"
    odd.write_text(
        '#!/bin/sh\ncase "$*" in *merge-tree*) echo oops >&2; exit 128;; *) exec git "$@";; esac\n'
    )
    odd.chmod(0o755)

    with pytest.raises(GitError, match="oops"):
        find_merge_conflicts(Git(project.root, environment=ENVIRONMENT, program=str(odd)), "main", "main")
