"""Merges branches into the commit that a new branch starts at, and tells what a merge would do or has done.

Everything is done with git objects: no working tree takes part.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from deepwork.kernel.errors import MAX_ECHOED, GitError
from deepwork.kernel.files.repositories import BRANCH_PREFIX
from deepwork.kernel.git.command import Git, check_hash, require_version
from deepwork.kernel.git.private_index import build_object_environment
from deepwork.kernel.git.refs import (
    IDENTITY,
    find_branch_tip,
    find_common_ancestor,
    find_current_branch,
    get_commit,
    get_tree,
    is_ancestor,
    resolve_commit,
)
from deepwork.kernel.records import dataclass

_MAX_COMPARED = 20
_MERGE_TREE_COMMAND = ("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z")


@dataclass(frozen=True, slots=True)
class UnmergedBranch:
    """A branch that was left out, because it conflicts with others that were merged before it."""

    branch: str
    conflicts_with: tuple[str, ...]
    files: tuple[str, ...]
    """The files with conflicts, sorted; empty if git could not merge at all."""


@dataclass(frozen=True, slots=True)
class BranchMerge:
    """The commit that contains the branches, those left out, and those that do not exist."""

    commit: str
    contained: tuple[str, ...]
    """Those that the base does not contain already, in the given order."""
    merged: tuple[str, ...] = ()
    """Those of them that no other of them contains."""
    unmerged: tuple[UnmergedBranch, ...] = ()
    missing: tuple[str, ...] = ()


def merge_branches(
    git: Git,
    branches: Sequence[str],
    base: str,
    *,
    base_name: str | None = None,
    tips: Mapping[str, str] | None = None,
) -> BranchMerge:
    """Return a commit that contains these branches: the base, the tip of one of them, or a merge commit.

    The base is a commit hash. With `base_name`, the result contains the base too; without it, the base only
    tells which branches need nothing. A branch that conflicts is left out, and the others are merged. `tips`
    are the commits of those that exist, if these are not their newest ones.
    """
    tips = dict(find_branch_tips(git, branches) if tips is None else tips)
    left = _exclude_merged(git, tips, base)
    if not left:
        return BranchMerge(base, (), missing=_list_missing(branches, tips))
    if base_name is not None:
        left = {base_name: base, **left}
    merge = _GrowingMerge(git)
    parts = _select_independent(git, left)
    for name, tip in parts.items():
        merge.add(name, tip)
    if merge.unmerged:  # what only a branch that was left out contains is merged by itself
        for name, tip in left.items():
            if name not in parts and not is_ancestor(git, tip, merge.commit):
                merge.add(name, tip)
    out = {each.branch for each in merge.unmerged}
    contained = tuple(name for name in left if name not in out and name != base_name)
    merged = tuple(name for name in merge.merged if name != base_name)
    missing = _list_missing(branches, tips)
    return BranchMerge(merge.finish(), contained, merged, tuple(merge.unmerged), missing)


class _GrowingMerge:
    """A merge that grows by one branch at a time."""

    def __init__(self, git: Git) -> None:
        self._git = git
        self.merged: dict[str, str] = {}
        self._tree = ""
        self.commit = ""
        self.unmerged: list[UnmergedBranch] = []

    def add(self, branch: str, tip: str) -> None:
        """Merge the branch, or list it as unmerged if it conflicts."""
        if not self.merged:
            self.commit, self.merged = tip, {branch: tip}
            return
        tree, files = _merge_trees(self._git, self.commit, tip)
        if tree is None:
            self.unmerged.append(UnmergedBranch(branch, self._list_clashing(tip), files))
            return
        self._tree, self.merged[branch] = tree, tip
        # Only a step on the way: the next merge needs a commit to find the common ancestor.
        self.commit = _create_commit(self._git, tree, [self.commit, tip], f"Merge {branch}")

    def finish(self) -> str:
        """Return one commit whose parents are all merged branches."""
        if len(self.merged) <= 2:
            return self.commit
        message = f"Merge {', '.join(self.merged)}"
        return _create_commit(self._git, self._tree, list(self.merged.values()), message)

    def _list_clashing(self, tip: str) -> tuple[str, ...]:
        """List the merged branches that conflict with this commit, or all if none does by itself."""
        some = list(self.merged.items())[:_MAX_COMPARED]
        found = [branch for branch, other in some if _merge_trees(self._git, other, tip)[0] is None]
        return tuple(found or self.merged)


def find_branch_tips(git: Git, branches: Iterable[str]) -> dict[str, str]:
    """Map the branches that exist to their tips, in the given order."""
    names = list(dict.fromkeys(branches))
    question = "".join(f"{BRANCH_PREFIX}{name}^{{commit}}\n" for name in names)
    answer = git.run("cat-file", "--batch-check=%(objecttype) %(objectname)", input=os.fsencode(question))
    # Only a line feed ends a line: what git says to a name that it does not find contains the name.
    found = zip(names, answer.decode(errors="replace").split("\n")[:-1], strict=True)
    return {name: check_hash(line[7:]) for name, line in found if line.startswith("commit ")}


def _exclude_merged(git: Git, tips: dict[str, str], base: str) -> dict[str, str]:
    """Drop the tips that the base contains."""
    if not tips:
        return {}
    question = "".join(f"{commit}\n" for commit in (*dict.fromkeys(tips.values()), f"^{base}"))
    left = set(git.run("rev-list", "--stdin", input=question.encode()).decode().split())
    return {name: tip for name, tip in tips.items() if tip in left}


def _select_independent(git: Git, tips: dict[str, str]) -> dict[str, str]:
    """Drop the tips that another one contains; of two names for one commit the first stays."""
    if len(tips) == 1:
        return tips
    left = set(git.run("merge-base", "--independent", *dict.fromkeys(tips.values())).decode().split())
    first = {tip: name for name, tip in reversed(tips.items())}
    return {name: tip for name, tip in tips.items() if tip in left and first[tip] == name}


def _merge_trees(git: Git, ours: str, theirs: str) -> tuple[str | None, tuple[str, ...]]:
    """Return the merged tree, or None and the files with conflicts."""
    try:
        with require_version(git, "2.38", "Merging the branches of dependencies"):
            answer = git.run(*_MERGE_TREE_COMMAND, ours, theirs, ok_codes=(0, 1))
    except GitError:  # git is too old, or the histories are unrelated
        return None, ()
    tree, *paths = os.fsdecode(answer).split("\0")[:-1]
    return (None, tuple(sorted(set(paths)))) if paths else (check_hash(tree), ())


def _create_commit(git: Git, tree: str, parents: Sequence[str], message: str) -> str:
    flags = [flag for parent in parents for flag in ("-p", parent)]
    return check_hash(git.run("commit-tree", *flags, "-m", message, tree, env=IDENTITY).decode().strip())


def _list_missing(branches: Iterable[str], tips: dict[str, str]) -> tuple[str, ...]:
    return tuple(name for name in dict.fromkeys(branches) if name not in tips)


# --- what a merge would do


def find_merge_conflicts(git: Git, ours: str, theirs: str) -> tuple[str, ...]:
    """Return the conflicting paths, sorted; empty if the merge is clean. Changes no file, index or branch.

    Merge drivers of the repository are disabled, so conflicts that a driver would resolve are included.
    """
    one, other = get_commit(git, ours), get_commit(git, theirs)
    if find_common_ancestor(git, one, other) is None:
        raise GitError(
            f"{ours[:MAX_ECHOED]!r} and {theirs[:MAX_ECHOED]!r} have no common ancestor in local history.",
            suggestion="Fetch more history (`git fetch --unshallow`), or name branches that share history.",
        )
    with (
        TemporaryDirectory(prefix="deepwork-merge-") as folder,
        require_version(git, "2.38", "Predicting conflicts"),
    ):
        merged = git.run(
            *_MERGE_TREE_COMMAND,
            one,
            other,
            env=build_object_environment(Path(folder), git.find_places()),
            ok_codes=(0, 1),
        )
    _, *paths = os.fsdecode(merged).split("\0")[:-1]
    return tuple(sorted(set(paths)))


# --- what was merged


def count_unmerged_commits(git: Git, branch: str, base: str, merge_commit: str | None = None) -> int:
    """Count the commits of the branch whose changes are not in the base; 0 if it is merged or is missing.

    The base counts as it is here and as it was last fetched. Merged means that the base contains the tip,
    that it has a commit with the same changes for each commit of the branch (a rebase), or that merging would
    change nothing (a squash). For a squash after which the same lines changed again, pass the `merge_commit`.
    """
    tip = find_branch_tip(git, branch)
    bases = [found for name in (base, _find_upstream(git, base)) if (found := find_branch_tip(git, name))]
    if tip is None or not bases:
        return 0
    given = resolve_commit(git, merge_commit) if merge_commit else None
    within = [given] if given and any(is_ancestor(git, given, each) for each in bases) else []
    if any(_has_changes_of(git, each, tip) for each in (*bases, *within)):
        return 0
    return min(_count_missing(git, each, tip) for each in bases)


def _find_upstream(git: Git, base: str) -> str:
    """Return the remote branch that the base follows; empty if it follows none."""
    branch = find_current_branch(git) if base == "HEAD" else base
    ref = git.run("for-each-ref", "--format=%(upstream)", "--", f"refs/heads/{branch}")
    return os.fsdecode(ref).strip()


def _has_changes_of(git: Git, base: str, tip: str) -> bool:
    return is_ancestor(git, tip, base) or _would_change_nothing(git, base, tip)


def _would_change_nothing(git: Git, base: str, tip: str) -> bool:
    """Return whether merging the tip into the base would leave its files as they are."""
    try:
        answer = git.run(*_MERGE_TREE_COMMAND, base, tip, ok_codes=(0, 1))
    except GitError:  # git is older than 2.38, or the histories are unrelated
        return get_tree(git, base) == get_tree(git, tip)
    tree, *conflicts = os.fsdecode(answer).split("\0")[:-1]
    return not conflicts and tree == get_tree(git, base)


def _count_missing(git: Git, base: str, tip: str) -> int:
    """Count the commits of the tip without an equivalent in the base."""
    listed = git.run("cherry", base, tip).decode().splitlines()
    return sum(line.startswith("+") for line in listed)
