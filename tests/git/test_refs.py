"""What names of branches and commits stand for, and what came from where."""

from __future__ import annotations

from pathlib import Path

import pytest

from deepwork.errors import GitError
from deepwork.git.worktrees import contains, current_branch, merge_of, resolve_commit
from git.changes_project import Project, new_project
from git.worktrees_project import started_project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Main has gone on since the branch `task` got a commit of its own."""
    project = started_project(tmp_path / "project")
    project.git("switch", "-q", "-c", "task")
    project.commit("task.py")
    project.git("switch", "-q", "main")
    project.commit("main.py")
    return project


def merged(project: Project, *flags: str, branch: str = "task") -> str:
    project.git("merge", "-q", "-m", "merge", *flags, branch)
    return project.head()


def test_the_current_branch_is_the_one_head_is_on(project: Project) -> None:
    assert current_branch(project.asked) == "main"
    project.git("switch", "-q", "-c", "a/é")
    assert current_branch(project.asked) == "a/é"
    project.git("checkout", "-q", "--detach")
    assert current_branch(project.asked) is None


def test_a_branch_without_a_commit_is_current_as_well(tmp_path: Path) -> None:
    assert current_branch(new_project(tmp_path / "empty").asked) == "main"


def test_a_damaged_head_is_not_a_detached_one(project: Project) -> None:
    (project.root / ".git/HEAD").write_text("damaged")

    with pytest.raises(GitError):
        current_branch(project.asked)


def test_branches_tags_and_hashes_are_commits(project: Project) -> None:
    head = project.head()
    project.git("tag", "-a", "-m", "one", "v1")

    names = ["main", "HEAD", "v1", "refs/heads/main", head, head[:10], "task~1^0", "main@{0}"]

    assert [resolve_commit(project.asked, name) for name in names] == [
        *[head] * 6,
        project.git("rev-parse", "task~1"),
        head,
    ]


@pytest.mark.parametrize(
    "name",
    [
        "",
        "missing",
        "-x",
        "--help",
        "main..task",
        "HEAD:main.py",
        "HEAD^{tree}:",
        "a\nmain",
        "\0",
        "^main",
        "f" * 40,
    ],
)
def test_nothing_else_is(project: Project, name: str) -> None:
    assert resolve_commit(project.asked, name) is None


def test_a_commit_contains_a_branch_once_it_is_merged(project: Project) -> None:
    before = project.head()
    after = merged(project)

    assert contains(project.asked, after, "task")
    assert contains(project.asked, "main", "task")
    assert not contains(project.asked, before, "task")
    assert not contains(project.asked, "missing", "task")
    assert not contains(project.asked, "main", "missing")


def test_a_squash_does_not_contain_the_branch(project: Project) -> None:
    project.git("merge", "-q", "--squash", "task")
    project.git("commit", "-q", "-m", "squashed")

    assert not contains(project.asked, "HEAD", "task")
    assert merge_of(project.asked, "task", "main") is None


def test_the_merge_is_found_however_much_came_after(project: Project) -> None:
    merge = merged(project)
    for number in range(5):
        project.commit(f"after-{number}.py")

    assert merge_of(project.asked, "task", "main") == merge


def test_the_merge_into_the_base_counts_not_one_on_the_way(project: Project) -> None:
    project.git("switch", "-q", "-c", "between")
    merged(project, "--no-ff")
    project.commit("between.py")
    project.git("switch", "-q", "main")
    project.commit("more.py")
    merge = merged(project, "--no-ff", branch="between")
    project.commit("after.py")

    assert merge_of(project.asked, "task", "main") == merge


def test_after_a_fast_forward_it_is_the_tip_of_the_branch(project: Project) -> None:
    project.git("switch", "-q", "task")
    merged(project, branch="main")
    tip = project.head()
    project.git("switch", "-q", "main")
    merged(project, "--ff-only")
    assert merge_of(project.asked, "task", "main") == tip

    project.commit("after.py")
    assert merge_of(project.asked, "task", "main") == tip


def test_what_is_not_merged_has_no_merge(project: Project) -> None:
    assert merge_of(project.asked, "task", "main") is None
    assert merge_of(project.asked, "missing", "main") is None
    assert merge_of(project.asked, "task", "missing") is None


def test_a_tag_of_the_same_name_is_not_taken_for_the_branch(project: Project) -> None:
    project.git("tag", "task", "main")

    assert merge_of(project.asked, "task", "main") is None
    assert not contains(project.asked, "main", "task")
