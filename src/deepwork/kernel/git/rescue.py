"""Saves uncommitted work on a rescue branch before its working tree is removed."""

from __future__ import annotations

from deepwork.kernel.errors import GitError
from deepwork.kernel.git.command import Git, check_hash
from deepwork.kernel.git.private_index import PrivateIndex, open_private_index
from deepwork.kernel.git.refs import (
    IDENTITY,
    check_branch_name,
    contains_branch,
    create_branch,
    find_conflicting_branch,
    find_current_branch,
    get_tree,
    has_branch,
    is_reachable,
    resolve_commit,
)

# The second is used if a branch called `deepwork` exists, which rules out the first.
RESCUE_PREFIXES = ("deepwork/rescue/", "deepwork-rescue/")
_MAX_BRANCHES = 10_000


def is_dirty(git: Git) -> bool:
    """Return whether a working tree has changes, including hidden ones, or untracked files."""
    with open_private_index(git) as index:
        return index.run("status", "--porcelain", "-z", "--untracked-files=normal") != b""


def rescue(git: Git, branch: str) -> str | None:
    """Commit all uncommitted work of a tree to a new branch; return its name, or None if there is no work.

    The tree, its index and its HEAD stay unchanged, even during a merge. Staged content that differs from
    the files gets a separate commit first. Commits of a detached HEAD that are on no branch are saved in
    the same way. Not saved: ignored files, and the content of nested repositories.
    """
    check_branch_name(branch)
    if git.find_places().top != git.root:
        return None  # not (or no longer) a working tree root: the tree around it is not ours
    head = resolve_commit(git, "HEAD")
    with open_private_index(git) as index:
        last = _commit_all(git, index, head, branch)
    if last is None or (last == head and (find_current_branch(git) or is_reachable(git, last))):
        return None
    return create_rescue_branch(git, last, branch)


def has_all_work(git: Git, branch: str) -> bool:
    """Return whether the branch has the current content of every file of the tree, and contains HEAD."""
    tip = resolve_commit(git, f"refs/heads/{branch}")
    with open_private_index(git) as index:
        index.add_all(without=index.list_nested_repositories())
        has_files = tip is not None and index.write_tree() == _get_tree(git, tip)
    head = resolve_commit(git, "HEAD")
    return has_files and (head is None or contains_branch(git, str(tip), "HEAD"))


def create_rescue_branch(git: Git, commit: str, branch: str) -> str:
    """Create a rescue branch at the commit, named after the given branch, and return its name."""
    for prefix in RESCUE_PREFIXES:
        if find_conflicting_branch(git, f"{prefix}x") is None:
            return _create_numbered_branch(git, f"{prefix}{branch}", commit)
    beside = " and ".join(map(_format_prefix, RESCUE_PREFIXES))
    raise GitError(
        f"A rescue branch cannot exist beside the branches {beside}.",
        suggestion="Rename one of them with `git branch -m`.",
    )


def _create_numbered_branch(git: Git, name: str, commit: str) -> str:
    for number in range(1, _MAX_BRANCHES):
        free = f"{name}-{number}"
        if has_branch(git, free) or find_conflicting_branch(git, free):
            continue
        try:
            create_branch(git, free, commit)
        except GitError:
            if not has_branch(git, free):  # otherwise another process created it first
                raise
        else:
            return free
    raise GitError(
        f"{_MAX_BRANCHES:,} branches {name}-… already exist.", suggestion="Delete those you do not need."
    )


def _format_prefix(prefix: str) -> str:
    return repr(prefix.strip("/"))


def _commit_all(git: Git, index: PrivateIndex, head: str | None, branch: str) -> str | None:
    """Commit staged and unstaged work; return the last commit, which is HEAD if there is no work."""
    before = _get_tree(git, head)
    staged = None if index.has_conflicts() else index.write_tree()
    # Filters are disabled, as everywhere: a file that Git LFS would replace is stored in full.
    index.add_all(without=index.list_nested_repositories())
    files = index.write_tree()
    parents = [*([head] if head else []), *_list_merge_heads(git)]
    last = head
    if staged is not None and _list_changed(git, before, staged) & _list_changed(git, staged, files):
        last = _create_commit(git, staged, parents, f"Staged work of {branch}, saved by deepwork")
        parents, before = [last], staged
    if files != before:
        last = _create_commit(git, files, parents, f"Uncommitted work of {branch}, saved by deepwork")
    return last


def _list_changed(git: Git, before: str, after: str) -> set[bytes]:
    return set(
        git.run("diff-tree", "-r", "-z", "--name-only", "--no-renames", before, after).split(b"\0")[:-1]
    )


def _create_commit(git: Git, tree: str, parents: list[str], message: str) -> str:
    flags = [flag for parent in parents for flag in ("-p", parent)]
    return check_hash(git.run("commit-tree", *flags, "-m", message, tree, env=IDENTITY).decode().strip())


def _get_tree(git: Git, commit: str | None) -> str:
    if commit is None:
        return check_hash(git.run("mktree", input=b"").decode().strip())
    return get_tree(git, commit)


def _list_merge_heads(git: Git) -> list[str]:
    """List the commits being merged, which may be on no local branch."""
    try:
        lines = git.find_path("MERGE_HEAD").read_text().split()
    except (OSError, ValueError):
        return []
    return [commit for line in lines if (commit := resolve_commit(git, line))]
