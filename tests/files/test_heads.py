"""The commit and branch of a tree are read without running git, and equal what git says."""

from __future__ import annotations

from pathlib import Path

import pytest

from deepwork.kernel.environment import build_child_environment
from deepwork.kernel.files.repositories import Head, RefsElsewhere, read_head
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.refs import find_head
from git.changes_project import Project, create_project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = create_project(tmp_path / "project")
    project.commit("folder/a.py", content="one\n")
    return project


def get_commit(project: Project) -> str:
    return project.git("rev-parse", "HEAD").strip()


def test_a_tree_on_a_branch(project: Project):
    project.git("switch", "-q", "-c", "fix/login")

    assert read_head(project.root / "folder") == Head(get_commit(project), "fix/login")


def test_refs_that_are_packed(project: Project):
    project.git("branch", "main-2")
    project.git("pack-refs", "--all")

    assert read_head(project.root) == Head(get_commit(project), "main")


def test_a_detached_head_has_no_branch(project: Project):
    project.git("checkout", "-q", "--detach")

    assert read_head(project.root) == Head(get_commit(project), None)


def test_a_linked_worktree_has_a_head_of_its_own(project: Project, tmp_path: Path):
    project.git("worktree", "add", "-q", "-b", "task", str(tmp_path / "tree"))
    project.commit("later.py", content="two\n")
    tree = Project(tmp_path / "tree")

    assert read_head(tree.root) == Head(get_commit(tree), "task")
    assert read_head(tree.root) != read_head(project.root)


def test_no_repository_and_no_commit_have_no_head(tmp_path: Path):
    assert read_head(tmp_path) is None

    unborn = create_project(tmp_path / "unborn")

    assert read_head(unborn.root) is None


def test_git_is_asked_where_refs_are_not_in_files(project: Project):
    commit, head = get_commit(project), project.root / ".git/HEAD"
    git = Git(project.root, environment=build_child_environment())
    assert find_head(git) == Head(commit, "main")

    head.write_text("ref: refs/heads/.invalid\n")

    with pytest.raises(RefsElsewhere):
        read_head(project.root)
    assert find_head(git) is None  # git finds no table either
