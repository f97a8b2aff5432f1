"""The base of a tree is a commit that its agent cannot choose."""

from __future__ import annotations

from pathlib import Path

import pytest

from deepwork.kernel.git.refs import find_base
from git.changes_project import Project, create_project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = create_project(tmp_path / "project")
    project.commit("a.py", content="one\n")
    return project


def get_commit(project: Project, name: str = "HEAD") -> str:
    return project.git("rev-parse", name).strip()


def test_a_branch_of_its_own_starts_at_the_merge_base(project: Project):
    start = get_commit(project)
    project.commit("b.py", content="landed meanwhile\n")
    landed = get_commit(project)
    project.git("switch", "-q", "-c", "task")
    project.commit("c.py", content="work\n")

    assert find_base(project.safe_git, start, "main") == landed


def test_a_tree_that_is_still_on_the_first_branch_keeps_the_first_commit(project: Project):
    start = get_commit(project)
    project.commit("b.py", content="work\n")

    assert find_base(project.safe_git, start, "main") == start


def test_a_branch_from_an_older_commit_does_not_get_an_older_base(project: Project):
    project.git("branch", "old")
    project.commit("checks.yml", content="stricter\n")
    start = get_commit(project)
    project.git("switch", "-q", "old")
    project.commit("c.py", content="work\n")

    assert find_base(project.safe_git, start, "main") == start


@pytest.mark.parametrize("branch", [None, "gone"])
def test_without_the_first_branch_the_first_commit_is_the_base(project: Project, branch: str | None):
    start = get_commit(project)
    project.git("switch", "-q", "-c", "task")
    project.commit("c.py", content="work\n")

    assert find_base(project.safe_git, start, branch) == start
