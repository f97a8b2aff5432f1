"""Merges whose results are compared with what both sides say, and the merge bases that they start from."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest

from deepwork.kernel.errors import GitError
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.merge_bases import CommitWalk
from deepwork.kernel.git.merge_commits import merge_trees
from deepwork.kernel.git.merge_rules import find_unexplained
from workspaces.make import commit, create_repository, run_git

LINES = [f"{number}\n" for number in range(9)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return create_repository(tmp_path)


def open_git(folder: Path) -> Git:
    return Git(folder, environment=dict(os.environ))


def grow_history(folder: Path, numbers: random.Random, count: int) -> list[str]:
    """Make commits with random parents and times, which are often wrong."""
    tree = run_git(folder, "rev-parse", "HEAD^{tree}")
    made = [run_git(folder, "rev-parse", "HEAD")]
    for number in range(count):
        parents = numbers.sample(made[-6:], min(len(made[-6:]), numbers.choice([1, 1, 2, 3])))
        time = f"{1_700_000_000 + numbers.choice([number, number, numbers.randrange(count)])} +0000"
        flags = [flag for parent in parents for flag in ("-p", parent)]
        env = {f"GIT_{who}_{what}": "a" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        done = subprocess.run(
            ["git", "commit-tree", *flags, "-m", str(number), tree],
            cwd=folder,
            env={**os.environ, **env, "GIT_AUTHOR_DATE": time, "GIT_COMMITTER_DATE": time},
            check=True,
            capture_output=True,
            text=True,
        )
        made.append(done.stdout.strip())
    return made


@pytest.mark.parametrize("seed", range(4))
def test_merge_bases_are_those_of_git(folder: Path, seed: int) -> None:
    numbers = random.Random(seed)
    commits = grow_history(folder, numbers, 40)
    for _ in range(30):
        one, other = numbers.choice(commits), numbers.choice(commits)
        walk = CommitWalk(open_git(folder))
        expected = run_git(folder, "merge-base", "--all", one, other).split()
        assert walk.find_merge_bases(one, other) == sorted(expected)
        assert walk.contains(one, other) == (expected == [other])


def test_a_missing_commit_is_an_error_unless_the_clone_is_shallow(folder: Path) -> None:
    commits = [commit(folder, a_txt=f"{number}\n") for number in range(3)]
    run_git(folder, "checkout", "-q", "-b", "side", commits[1])
    side = commit(folder, b_txt="b\n")
    (folder / ".git/objects" / commits[0][:2] / commits[0][2:]).unlink()

    assert CommitWalk(open_git(folder)).find_merge_bases(commits[2], side) == [commits[1]]
    with pytest.raises(GitError, match="no commit"):
        CommitWalk(open_git(folder)).contains(commits[1], "0" * 40)
    (folder / ".git/shallow").write_text(f"{commits[1]}\n")
    orphan = run_git(folder, "rev-parse", "main")
    assert CommitWalk(open_git(folder)).find_merge_bases(orphan, side) == [commits[1]]


def test_a_criss_cross_merge_is_made_again_as_git_makes_it(folder: Path) -> None:
    """Both sides merged each other before, so there are two merge bases, which git merges first."""
    commit(folder, long_txt="".join(LINES))
    run_git(folder, "checkout", "-q", "-b", "other")
    ours = commit(folder, long_txt="".join(["first\n", *LINES[1:]]))
    run_git(folder, "checkout", "-q", "main")
    theirs = commit(folder, long_txt="".join([*LINES[:-1], "last\n"]))
    run_git(folder, "merge", "-q", "-m", "one", ours)
    one = commit(folder, a_txt="a\n")
    run_git(folder, "checkout", "-q", "other")
    run_git(folder, "merge", "-q", "-m", "other", theirs)
    other = commit(folder, long_txt="".join(["first\n", *LINES[1:4], "middle\n", *LINES[5:-1], "last\n"]))

    merge = merge_trees(open_git(folder), one, other)

    assert len(CommitWalk(open_git(folder)).find_merge_bases(one, other)) == 2
    assert merge.tree == run_git(folder, "merge-tree", "--write-tree", one, other)


def test_committed_attributes_count_and_others_do_not(folder: Path) -> None:
    """`merge=union` takes the lines of both sides, and never says that they conflict."""
    (folder / ".gitattributes").write_text("union.txt merge=union\n")
    commit(folder, union_txt="0\n", plain_txt="0\n")
    run_git(folder, "checkout", "-q", "-b", "other")
    other = commit(folder, union_txt="0\nother\n")
    plain = commit(folder, plain_txt="0\nother\n")
    run_git(folder, "checkout", "-q", "main")
    ours = commit(folder, union_txt="0\nours\n", plain_txt="0\nours\n")

    merged = merge_trees(open_git(folder), ours, other).tree
    (folder / ".git/info").mkdir(exist_ok=True)
    (folder / ".git/info/attributes").write_text("* merge=union\n")

    assert run_git(folder, "show", f"{merged}:union.txt").split() == ["0", "ours", "other"]
    with pytest.raises(GitError, match="otherwise"):
        merge_trees(open_git(folder), ours, plain)


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "merged", "is_explained"),
    [
        ("b", "b", "t", "t", True),
        ("b", "b", "t", "b", False),
        ("b", "o", "b", "o", True),
        ("b", "o", "b", "b", False),
        ("b", "s", "s", "s", True),
        ("b", "s", "s", "b", False),
        ("b", None, "b", None, True),
        ("b", None, "b", "b", False),
        (None, None, "t", "t", True),
        (None, None, "t", None, False),
        (None, None, None, "x", False),
        ("b", "o", "t", "o", False),
        ("b", "o", "t", "t", False),
        ("b", None, "t", None, False),
        (None, "o", "t", "o", False),
    ],
)
def test_what_only_one_side_changed_is_in_the_result(
    base: str | None, ours: str | None, theirs: str | None, merged: str | None, *, is_explained: bool
) -> None:
    sides = [{"same": "s"} | ({"path": each} if each else {}) for each in (base, ours, theirs, merged)]

    assert find_unexplained(*sides) == ([] if is_explained else ["path"])
