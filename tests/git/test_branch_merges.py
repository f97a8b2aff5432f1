"""Branches are merged as objects into the commit that a new branch starts at."""

from __future__ import annotations

from pathlib import Path

import pytest

from deepwork.kernel.git.branch_merges import BranchMerge, UnmergedBranch, find_branch_tips, merge_branches
from deepwork.kernel.git.refs import get_commit
from git.changes_project import Project
from git.worktrees_project import create_started_project, read_state


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return create_started_project(tmp_path / "project")


def commit_on_branch(
    project: Project, branch: str, *names: str, base: str = "main", content: str = "x\n"
) -> str:
    """Create a branch with a commit of these files; return its tip."""
    project.git("switch", "-q", "-c", branch, base)
    project.commit(*names, content=content)
    project.git("switch", "-q", "main")
    return get_commit(project.safe_git, branch)


def merge(project: Project, *branches: str, base_name: str | None = None) -> BranchMerge:
    base = get_commit(project.safe_git, "main")
    return merge_branches(project.safe_git, branches, base, base_name=base_name)


def test_a_missing_branch_may_have_any_name(project: Project) -> None:
    tip = commit_on_branch(project, "one", "one.py")

    assert find_branch_tips(project.safe_git, ["no\u2028such\x85one", "one"]) == {"one": tip}


def list_files(project: Project, commit: str) -> set[str]:
    return set(project.git("ls-tree", "-r", "--name-only", commit).split())


def list_parents(project: Project, commit: str) -> list[str]:
    return project.git("rev-parse", f"{commit}^@").split()


def test_one_branch_is_taken_as_it_is(project: Project) -> None:
    tip = commit_on_branch(project, "one", "one.py")

    assert merge(project, "one") == BranchMerge(tip, ("one",), ("one",))


def test_several_branches_become_one_merge_commit(project: Project) -> None:
    tips = [commit_on_branch(project, name, f"{name}.py") for name in ("one", "two", "three")]

    merged = merge(project, "one", "two", "three")

    assert merged.contained == ("one", "two", "three")
    assert list_parents(project, merged.commit) == tips
    assert list_files(project, merged.commit) >= {"one.py", "two.py", "three.py"}


def test_a_branch_that_the_base_or_another_branch_contains_is_not_merged_again(project: Project) -> None:
    project.git("branch", "empty")
    commit_on_branch(project, "first", "first.py")
    tip = commit_on_branch(project, "second", "second.py", base="first")

    assert merge(project, "empty", "first", "second") == BranchMerge(tip, ("first", "second"), ("second",))
    assert merge(project, "empty") == BranchMerge(get_commit(project.safe_git, "main"), ())


def test_a_branch_that_conflicts_is_left_out_and_named_with_its_files(project: Project) -> None:
    one = commit_on_branch(project, "one", "kept.py", content="one\n")
    commit_on_branch(project, "two", "kept.py", content="two\n")
    commit_on_branch(project, "three", "three.py")

    merged = merge(project, "one", "two", "three")

    assert merged.unmerged == (UnmergedBranch("two", ("one",), ("kept.py",)),)
    assert merged.contained == ("one", "three")
    assert list_parents(project, merged.commit)[0] == one
    assert project.git("show", f"{merged.commit}:kept.py") == "one"


def test_what_only_a_branch_with_conflicts_contains_is_merged_by_itself(project: Project) -> None:
    commit_on_branch(project, "one", "kept.py", content="one\n")
    commit_on_branch(project, "part", "part.py")
    commit_on_branch(project, "two", "kept.py", base="part", content="two\n")

    merged = merge(project, "one", "two", "part")

    assert [each.branch for each in merged.unmerged] == ["two"]
    assert merged.contained == ("one", "part")
    assert "part.py" in list_files(project, merged.commit)


def test_the_base_is_merged_if_it_is_named(project: Project) -> None:
    commit_on_branch(project, "one", "one.py")
    project.commit("later.py")

    assert "later.py" not in list_files(project, merge(project, "one").commit)
    merged = merge(project, "one", base_name="main")
    assert list_files(project, merged.commit) >= {"one.py", "later.py"}
    assert merged.contained == ("one",)


def test_unrelated_histories_and_missing_branches_are_reported(project: Project) -> None:
    tip = commit_on_branch(project, "one", "one.py")
    project.git("switch", "-q", "--orphan", "other")
    project.commit("other.py")
    project.git("switch", "-q", "main")

    merged = merge(project, "one", "other", "gone")

    other = UnmergedBranch("other", ("one",), ())
    assert merged == BranchMerge(tip, ("one",), ("one",), (other,), ("gone",))


def test_merging_changes_no_branch_and_no_file(project: Project) -> None:
    commit_on_branch(project, "one", "kept.py", content="one\n")
    commit_on_branch(project, "two", "kept.py", content="two\n")
    project.write("edited.py")
    before = read_state(project), project.git("for-each-ref")

    merge(project, "one", "two", base_name="main")

    assert (read_state(project), project.git("for-each-ref")) == before
