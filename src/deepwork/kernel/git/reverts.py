"""Builds commits that undo others, as git objects: no working tree takes part, and no history changes."""

from __future__ import annotations

from dataclasses import dataclass

from deepwork.kernel.git.command import Git
from deepwork.kernel.git.commit_records import get_tree, read_commits
from deepwork.kernel.git.exact_files import commit_tree
from deepwork.kernel.git.merge_commits import create_commit, merge_trees
from deepwork.kernel.git.refs import is_ancestor


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
