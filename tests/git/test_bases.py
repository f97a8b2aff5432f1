"""The base of a tree is a commit that its agent cannot choose."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from deepwork.kernel.errors import GitError
from deepwork.kernel.git.merge_bases import find_base
from deepwork.kernel.git.refs import find_first_commit
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


@pytest.mark.parametrize("place", ["object", "commit_graph"])
def test_a_false_history_makes_no_work_a_base(project: Project, place: str):
    """Git believes that the branch already contains the work, so that the work would be compared with itself."""
    project.git("switch", "-q", "-c", "task")
    project.commit("work.py", content="work\n")
    work = get_commit(project)
    project.git("switch", "-q", "main")
    start = get_commit(project)
    for number in range(3):
        project.commit("b.py", content=f"{number}\n")
    project.git("switch", "-q", "task")
    name = get_commit(project, "main~1")
    false = project.git("cat-file", "commit", name).replace(get_commit(project, "main~2"), work)
    object_file = project.root / ".git/objects" / name[:2] / name[2:]
    honest = object_file.read_bytes()
    object_file.unlink()
    object_file.write_bytes(zlib.compress(f"commit {len(false)}\0{false}".encode()))
    if place == "commit_graph":
        project.git("commit-graph", "write", "--reachable")
        object_file.unlink()
        object_file.write_bytes(honest)
        assert find_base(project.safe_git, start, "main") == start
    else:
        with pytest.raises(GitError, match="no commit"):
            find_base(project.safe_git, start, "main")
    assert project.git("merge-base", "task", "main").strip() == work


def test_the_first_commit_of_a_branch_is_that_of_its_history(project: Project, tmp_path: Path):
    """It names the lease of the branch: with another one, two processes would land on it at the same time."""
    first = get_commit(project)
    for number in range(3):
        project.commit("b.py", content=f"{number}\n")
    project.git("clone", "-q", "--depth=2", f"file://{project.root}", str(tmp_path / "clone"))
    (project.root / ".git/shallow").write_text(get_commit(project, "main~1") + "\n")
    assert project.git("rev-list", "--max-parents=0", "main").strip() == get_commit(project, "main~1")

    assert find_first_commit(project.safe_git, "main") == first
    shallow = project.safe_git.at(tmp_path / "clone")
    assert find_first_commit(shallow, "main") == get_commit(project, "main~1")
