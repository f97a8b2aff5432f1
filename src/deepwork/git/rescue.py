"""Work that nobody has committed, kept on a branch before its working tree goes away."""

from __future__ import annotations

import os
from pathlib import Path

from deepwork.errors import GitError
from deepwork.git.command import Git, check_hash
from deepwork.git.private_index import PrivateIndex, private_index, top_of
from deepwork.git.refs import (
    IDENTITY,
    branch_in_the_way,
    check_branch_name,
    contains,
    create_branch,
    current_branch,
    has_branch,
    is_kept,
    resolve_commit,
)

# The second for whoever has a branch called `deepwork`, next to which the first cannot be.
_PREFIXES = ("deepwork/rescue/", "deepwork-rescue/")
_MOST = 10_000


def is_dirty(git: Git) -> bool:
    """Whether a working tree has changes, also hidden ones, or new files that are not ignored."""
    with private_index(git) as index:
        return index.run("status", "--porcelain", "-z", "--untracked-files=normal") != b""


def rescue(git: Git, branch: str) -> str | None:
    """Commit all uncommitted work of a tree to a new branch, and tell its name; None if there is none.

    The tree, its index and its HEAD stay as they are, be it in the middle of a merge. Staged work that the
    files have moved away from gets a commit before theirs. Commits of a detached HEAD that no branch holds
    are kept in the same way. Not kept: ignored files, and what is inside repositories among the files.
    """
    check_branch_name(git, branch)
    if top_of(git) != git.root:
        return None  # a folder that is no tree (any more): the tree around it is somebody else's
    head = resolve_commit(git, "HEAD")
    with private_index(git) as index:
        last = _commit_all(git, index, head, branch)
    if last is None or (last == head and (current_branch(git) or is_kept(git, last))):
        return None
    return keep(git, last, branch)


def holds_all(git: Git, branch: str) -> bool:
    """Whether the branch has every file of the working tree as it is now, and the commits below it."""
    tip = resolve_commit(git, f"refs/heads/{branch}")
    with private_index(git) as index:
        index.take_all(without=index.nested_repositories())
        has_files = tip is not None and index.write_tree() == _tree_of(git, tip)
    head = resolve_commit(git, "HEAD")
    return has_files and (head is None or contains(git, str(tip), "HEAD"))


def keep(git: Git, commit: str, branch: str) -> str:
    """A new branch at the commit, named after the one that it was work for."""
    for prefix in _PREFIXES:
        if branch_in_the_way(git, f"{prefix}x") is None:
            return _first_free(git, f"{prefix}{branch}", commit)
    raise GitError(
        f"No rescue branch can be made next to the branches {' and '.join(map(_last_of, _PREFIXES))}.",
        suggestion="Rename one of them with `git branch -m`.",
    )


def _first_free(git: Git, name: str, commit: str) -> str:
    for number in range(1, _MOST):
        free = f"{name}-{number}"
        if has_branch(git, free) or branch_in_the_way(git, free):
            continue
        try:
            create_branch(git, free, commit)
        except GitError:
            if not has_branch(git, free):  # else somebody was faster
                raise
        else:
            return free
    raise GitError(f"There are {_MOST:,} branches {name}-… already.", suggestion="Delete what nobody needs.")


def _last_of(prefix: str) -> str:
    return repr(prefix.strip("/"))


def _commit_all(git: Git, index: PrivateIndex, head: str | None, branch: str) -> str | None:
    """The last of the commits that hold the work; HEAD itself if there is none."""
    before = _tree_of(git, head)
    staged = None if index.has_conflicts() else index.write_tree()
    # Filters are off, here as everywhere: a large file that one would have replaced is kept as it is.
    index.take_all(without=index.nested_repositories())
    files = index.write_tree()
    parents = [*([head] if head else []), *_being_merged(git)]
    last = head
    if staged is not None and _changed(git, before, staged) & _changed(git, staged, files):
        last = _commit(git, staged, parents, f"Staged work of {branch}, kept by deepwork")
        parents, before = [last], staged
    if files != before:
        last = _commit(git, files, parents, f"Uncommitted work of {branch}, kept by deepwork")
    return last


def _changed(git: Git, before: str, after: str) -> set[bytes]:
    return set(
        git.run("diff-tree", "-r", "-z", "--name-only", "--no-renames", before, after).split(b"\0")[:-1]
    )


def _commit(git: Git, tree: str, parents: list[str], message: str) -> str:
    flags = [flag for parent in parents for flag in ("-p", parent)]
    return check_hash(git.run("commit-tree", *flags, "-m", message, tree, env=IDENTITY).decode().strip())


def _tree_of(git: Git, commit: str | None) -> str:
    if commit is None:
        return check_hash(git.run("mktree", input=b"").decode().strip())
    return check_hash(git.run("rev-parse", "--verify", f"{commit}^{{tree}}").decode().strip())


def _being_merged(git: Git) -> list[str]:
    """What a merge in progress brings in: perhaps on no branch of this repository."""
    answer = git.run("rev-parse", "--path-format=absolute", "--git-path", "MERGE_HEAD")
    try:
        lines = Path(os.fsdecode(answer.removesuffix(b"\n"))).read_text().split()
    except (OSError, ValueError):
        return []
    return [commit for line in lines if (commit := resolve_commit(git, line))]
