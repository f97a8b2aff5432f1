"""Resolves branches and commits, and which commit contains which."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from deepwork.kernel.errors import GitError
from deepwork.kernel.files.repositories import is_ref_name
from deepwork.kernel.git.refs import (
    contains_branch,
    find_current_branch,
    find_merge_commit,
    find_symbolic_target,
    resolve_commit,
)
from git.changes_project import Project, create_project
from git.conftest import PLAIN, run_git
from git.worktrees_project import create_started_project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A repository whose branches main and `task` have diverged."""
    project = create_started_project(tmp_path / "project")
    project.git("switch", "-q", "-c", "task")
    project.commit("task.py")
    project.git("switch", "-q", "main")
    project.commit("main.py")
    return project


def merge_branch(project: Project, *flags: str, branch: str = "task") -> str:
    project.git("merge", "-q", "-m", "merge", *flags, branch)
    return project.head()


def test_the_current_branch_is_the_one_head_points_to(project: Project) -> None:
    assert find_current_branch(project.safe_git) == "main"
    project.git("switch", "-q", "-c", "a/é")
    assert find_current_branch(project.safe_git) == "a/é"
    project.git("checkout", "-q", "--detach")
    assert find_current_branch(project.safe_git) is None


def test_a_branch_without_a_commit_is_current_as_well(tmp_path: Path) -> None:
    assert find_current_branch(create_project(tmp_path / "empty").safe_git) == "main"


def test_a_damaged_head_is_not_mistaken_for_a_detached_one(project: Project) -> None:
    (project.root / ".git/HEAD").write_text("damaged")

    with pytest.raises(GitError):
        find_current_branch(project.safe_git)


def test_branches_tags_and_hashes_are_resolved(project: Project) -> None:
    head = project.head()
    project.git("tag", "-a", "-m", "one", "v1")

    names = ["main", "HEAD", "v1", "refs/heads/main", head, head[:10], "task~1^0", "main@{0}"]

    assert [resolve_commit(project.safe_git, name) for name in names] == [
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
def test_other_names_are_not_resolved(project: Project, name: str) -> None:
    assert resolve_commit(project.safe_git, name) is None


def test_a_commit_contains_a_branch_once_it_is_merged(project: Project) -> None:
    before = project.head()
    after = merge_branch(project)

    assert contains_branch(project.safe_git, after, "task")
    assert contains_branch(project.safe_git, "main", "task")
    assert not contains_branch(project.safe_git, before, "task")
    assert not contains_branch(project.safe_git, "missing", "task")
    assert not contains_branch(project.safe_git, "main", "missing")


def test_a_squash_does_not_contain_the_branch(project: Project) -> None:
    project.git("merge", "-q", "--squash", "task")
    project.git("commit", "-q", "-m", "squashed")

    assert not contains_branch(project.safe_git, "HEAD", "task")
    assert find_merge_commit(project.safe_git, "task", "main") is None


def test_the_merge_is_found_despite_later_commits(project: Project) -> None:
    merge = merge_branch(project)
    for number in range(5):
        project.commit(f"after-{number}.py")

    assert find_merge_commit(project.safe_git, "task", "main") == merge


def test_the_merge_into_the_base_counts_not_an_intermediate_one(project: Project) -> None:
    project.git("switch", "-q", "-c", "between")
    merge_branch(project, "--no-ff")
    project.commit("between.py")
    project.git("switch", "-q", "main")
    project.commit("more.py")
    merge = merge_branch(project, "--no-ff", branch="between")
    project.commit("after.py")

    assert find_merge_commit(project.safe_git, "task", "main") == merge


def test_after_a_fast_forward_the_merge_is_the_branch_tip(project: Project) -> None:
    project.git("switch", "-q", "task")
    merge_branch(project, branch="main")
    tip = project.head()
    project.git("switch", "-q", "main")
    merge_branch(project, "--ff-only")
    assert find_merge_commit(project.safe_git, "task", "main") == tip

    project.commit("after.py")
    assert find_merge_commit(project.safe_git, "task", "main") == tip


def test_an_unmerged_branch_has_no_merge(project: Project) -> None:
    assert find_merge_commit(project.safe_git, "task", "main") is None
    assert find_merge_commit(project.safe_git, "missing", "main") is None
    assert find_merge_commit(project.safe_git, "task", "missing") is None


def test_a_tag_of_the_same_name_is_not_mistaken_for_the_branch(project: Project) -> None:
    project.git("tag", "task", "main")

    assert find_merge_commit(project.safe_git, "task", "main") is None
    assert not contains_branch(project.safe_git, "main", "task")


PARTS = st.sampled_from(
    [*"aé.@-/~^:?*[\\ {}", "..", "@{", ".lock", "//", "HEAD", "refs", "\x7f", "\t", "lock", "\udcff"]
)


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(PARTS, min_size=1, max_size=6).map("".join))
@example("HEAD")
@example("a/.b")
@example("a.lock/b")
@example("a/")
@example("-a")
def test_names_of_branches_are_judged_as_git_does(project: Project, name: str) -> None:
    argument = os.fsencode(f"refs/heads/{name}")
    done = subprocess.run([b"git", b"check-ref-format", argument], cwd=project.root, env=PLAIN, check=False)

    assert is_ref_name(f"refs/heads/{name}") == (done.returncode == 0 and name != "HEAD")


def make_packed(project: Project) -> None:
    project.git("pack-refs", "--all")


def make_newer_than_packed(project: Project) -> None:
    project.git("pack-refs", "--all")
    project.commit("newer.py")
    project.git("branch", "-D", "-q", "task")


def make_symbolic(project: Project) -> None:
    project.git("symbolic-ref", "refs/heads/other", "refs/heads/task")


def make_symbolic_chain(project: Project) -> None:
    project.git("symbolic-ref", "refs/heads/other", "refs/heads/more")
    project.git("symbolic-ref", "refs/heads/more", "refs/heads/task")


def make_symbolic_link(project: Project) -> None:
    (project.root / ".git/refs/heads/other").symlink_to("task")


def make_folder_of_branches(project: Project) -> None:
    project.git("branch", "other/deep/one")


def make_damaged(project: Project) -> None:
    (project.root / ".git/refs/heads/other").write_text("nonsense\n")


@pytest.mark.parametrize(
    "make",
    [
        make_packed, make_newer_than_packed, make_symbolic, make_symbolic_chain, make_symbolic_link,
        make_folder_of_branches, make_damaged,
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_linked", [False, True], ids=["main", "linked"])
def test_refs_are_read_as_git_reads_them(
    project: Project, tmp_path: Path, make: Callable[[Project], None], is_linked: bool
) -> None:
    tree = project
    if is_linked:
        project.git("worktree", "add", "-q", "-b", "own", str(tmp_path / "linked"))
        tree = Project(tmp_path / "linked")
    make(project)

    for name in ("HEAD", *(f"refs/heads/{branch}" for branch in ("main", "task", "other", "own", "a.lock"))):
        commit = run_git(tree.root, "rev-parse", "-q", "--verify", f"{name}^{{commit}}", check=False)
        target = run_git(tree.root, "symbolic-ref", "-q", name, check=False)
        assert resolve_commit(tree.safe_git, name) == (commit.decode().strip() or None)
        assert find_symbolic_target(tree.safe_git, name) == (target.decode().strip() or None)
