"""Merges and undoes commits as git objects, and moves branches only from where they are expected to be.

No working tree takes part: neither the files nor the index of any tree change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from deepwork.kernel.errors import GitError, NotAllowed
from deepwork.kernel.files.repositories import BRANCH_PREFIX
from deepwork.kernel.git.command import Git, check_hash
from deepwork.kernel.git.exact_files import commit_tree
from deepwork.kernel.git.proven_merges import ProvenMerges, TreeMerge
from deepwork.kernel.git.refs import (
    IDENTITY,
    find_symbolic_target,
    get_tree,
    is_ancestor,
    read_commits,
    resolve_commit,
)
from deepwork.kernel.git.uncommitted import find_identity
from deepwork.kernel.git.worktrees import list_worktrees
from deepwork.kernel.records import dataclass

_BUSY_FILES = ("rebase-merge/head-name", "rebase-apply/head-name")
"""In the git folder of a working tree, the branch that is being rebased there: HEAD is detached then."""


@dataclass(frozen=True)
class CommitFacts:
    """A commit with its tree and its parents."""

    commit: str
    tree: str
    parents: tuple[str, ...]
    before: str
    """The tree of its first parent; empty if it has none."""


def merge_trees(git: Git, ours: str, theirs: str) -> TreeMerge:
    """Merge two commits, and prove the result."""
    merges = ProvenMerges(git)
    merge = merges.merge(ours, theirs)
    merges.prove()
    return merge


def create_commit(
    git: Git, tree: str, parents: Sequence[str], message: str, env: Mapping[str, str] | None = None
) -> CommitFacts:
    """Create a commit that no branch has yet; its author is in `env`, or whom `find_author` finds."""
    flags = [flag for parent in parents for flag in ("-p", check_hash(parent))]
    text = message.encode(errors="replace")
    made = git.run(
        "commit-tree", *flags, "-F", "-", check_hash(tree), input=text, env=env or find_author(git)
    )
    before = get_tree(git, parents[0]) if parents else ""
    return CommitFacts(check_hash(made.decode().strip()), tree, tuple(parents), before)


def find_author(git: Git) -> Mapping[str, str]:
    """Return the author of new commits as variables: whom git's config names, else deepwork."""
    return find_identity(git) or IDENTITY


def get_commit_facts(git: Git, commit: str) -> CommitFacts:
    """Return the tree and the parents of a commit."""
    tree = get_tree(git, commit)
    parents = read_commits(git, [commit])[commit].parents
    return CommitFacts(commit, tree, parents, get_tree(git, parents[0]) if parents else "")


def find_own_branch_tip(git: Git, branch: str) -> str | None:
    """Return the tip of a local branch; raises NotAllowed if it only stands for another one."""
    ref = BRANCH_PREFIX + branch
    if other := find_symbolic_target(git, ref):
        raise NotAllowed(
            f"The branch {branch!r} is a symbolic ref to {other}, so moving it would move another branch.",
            suggestion=f"Name {other.removeprefix(BRANCH_PREFIX)!r} instead.",
        )
    return resolve_commit(git, ref)


def move_branch(git: Git, branch: str, commit: str, expected: str | None, reason: str) -> bool:
    """Move a branch if it is where it is expected; None: if it does not exist yet. Return whether it moved.

    This is one step for git: a crash leaves the branch at the one commit or at the other.
    """
    ref = BRANCH_PREFIX + branch
    old = expected or "0" * len(commit)
    try:
        git.run("update-ref", "--no-deref", "-m", reason, ref, check_hash(commit), old, env=IDENTITY)
    except GitError:
        if resolve_commit(git, ref) == expected:
            raise
        return False
    return True


def find_checkout(git: Git, branch: str) -> Path | None:
    """Return a working tree that has the branch checked out, or a git folder in which it is being rebased."""
    for tree in list_worktrees(git):
        if tree.branch == branch and tree.path.exists():
            return tree.path
    common = git.find_places().common_dir
    ref = BRANCH_PREFIX + branch
    return next((folder for folder in _list_git_folders(common) if ref in _list_rebased(folder)), None)


def _list_git_folders(common: Path) -> Iterator[Path]:
    yield common
    yield from (common / "worktrees").glob("*")


def _list_rebased(folder: Path) -> Iterator[str]:
    """Yield the branch that a rebase of this working tree will move when it ends."""
    for name in _BUSY_FILES:
        with suppress(OSError):
            yield (folder / name).read_text(errors="replace").strip()


def list_subjects(git: Git, base: str, tip: str, limit: int) -> list[tuple[str, str]]:
    """List the commits of the tip that the base does not contain, the newest first, with their subjects."""
    flags = ("-z", "--format=%H %s", f"--max-count={limit}")
    listed = git.run("log", *flags, check_hash(tip), f"^{check_hash(base)}", "--").decode(errors="replace")
    pairs = (line.partition(" ") for line in listed.split("\0") if line)
    return [(commit, subject) for commit, _, subject in pairs]


def list_changers(git: Git, base: str, tip: str, paths: Sequence[str], limit: int) -> list[tuple[str, str]]:
    """List the commits of a branch since a base that changed one of these files, the newest first."""
    flags = ("-z", "--first-parent", "--format=%H %s", f"--max-count={limit}")
    span = (check_hash(tip), f"^{check_hash(base)}")
    literal = [f":(literal,top){path}" for path in paths]
    listed = git.run("log", *flags, *span, "--", *literal).decode(errors="replace")
    pairs = (line.partition(" ") for line in listed.split("\0") if line)
    return [(commit, subject) for commit, _, subject in pairs]


@dataclass(frozen=True)
class BuiltRevert:
    """The commit that undoes another one: the tip if there is nothing to undo, None on a conflict."""

    commit: str | None
    conflicts: tuple[str, ...] = ()


def build_revert(git: Git, tip: str, commit: str, message: str) -> BuiltRevert:
    """Undo on the tip what a commit changed against its first parent; a merge commit counts as a whole.

    Old versions of git have no option for the base of a merge. So the three trees get commits of their own,
    in which the commit to be undone is the parent of the other two.
    """
    if not is_ancestor(git, commit, tip):
        return BuiltRevert(tip)
    parents = read_commits(git, [commit])[commit].parents
    if not parents:
        return BuiltRevert(None, ("the first commit of the history",))
    base = commit_tree(git, get_tree(git, commit), [], "base")
    ours = commit_tree(git, get_tree(git, tip), [base], "ours")
    theirs = commit_tree(git, get_tree(git, parents[0]), [base], "theirs")
    merged = merge_trees(git, ours, theirs)
    if merged.tree is None:
        return BuiltRevert(None, merged.files or merged.messages)
    if merged.tree == get_tree(git, tip):
        return BuiltRevert(tip)
    return BuiltRevert(create_commit(git, merged.tree, [tip], message).commit)
