"""Whether a branch is merged is read from git, also after a squash or a rebase."""

from __future__ import annotations

from pathlib import Path

import pytest

from deepwork.kernel.git.branch_merges import count_unmerged_commits
from git.changes_project import Project
from git.worktrees_project import create_started_project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with a branch `work` of two commits."""
    project = create_started_project(tmp_path / "project")
    project.git("switch", "-q", "-c", "work")
    project.commit("kept.py", content="one\n")
    project.commit("kept.py", "new.py", content="two\n")
    project.git("switch", "-q", "main")
    return project


def count(project: Project, merge_commit: str | None = None) -> int:
    return count_unmerged_commits(project.safe_git, "work", "main", merge_commit)


def test_every_commit_of_an_unmerged_branch_counts(project: Project) -> None:
    assert count(project) == 2
    assert count(project, "work") == 2


@pytest.mark.parametrize("how", ["--ff-only", "--no-ff"])
def test_a_merged_branch_has_none_left(project: Project, how: str) -> None:
    project.git("merge", "-q", "--no-edit", how, "work")
    project.commit("kept.py", content="later\n")

    assert count(project) == 0


def test_a_squashed_branch_has_none_left(project: Project) -> None:
    project.git("merge", "-q", "--squash", "work")
    project.commit()

    assert count(project) == 0


def test_a_squash_whose_lines_changed_again_is_found_by_its_commit(project: Project) -> None:
    project.git("merge", "-q", "--squash", "work")
    project.commit()
    squash = project.git("rev-parse", "HEAD")
    project.commit("kept.py", content="later\n")

    assert count(project) == 2
    assert count(project, squash) == 0


def test_a_rebased_branch_has_none_left(project: Project) -> None:
    project.commit("other.py")
    project.git("cherry-pick", "work~1", "work")
    project.commit("kept.py", content="later\n")

    assert count(project) == 0


def test_a_branch_merged_on_the_server_counts_after_a_fetch(project: Project) -> None:
    project.git("update-ref", "refs/remotes/origin/main", "work")
    project.git("config", "remote.origin.url", "nowhere")
    project.git("config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*")
    project.git("config", "branch.main.remote", "origin")
    project.git("config", "branch.main.merge", "refs/heads/main")

    assert count(project) == 0


def test_a_deleted_branch_has_none_left(project: Project) -> None:
    project.git("branch", "-q", "-D", "work")

    assert count(project) == 0
