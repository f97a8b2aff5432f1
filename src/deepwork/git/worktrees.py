"""Working trees of a repository, each on its own branch: made, found, and removed without losing work."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from deepwork.errors import MAX_ECHOED, GitError, InvalidInput, NotAllowed
from deepwork.files.lock import alone
from deepwork.git.command import Git
from deepwork.git.private_index import private_index
from deepwork.git.refs import (
    branch_in_the_way,
    check_branch_name,
    commit_named,
    common_ancestor,
    contains,
    create_branch,
    current_branch,
    delete_branch,
    has_branch,
    is_kept,
    merge_of,
    resolve_commit,
)
from deepwork.git.rescue import holds_all, is_dirty, keep, rescue
from deepwork.git.versions import needs

__all__ = [
    "Worktree",
    "add_worktree",
    "contains",
    "current_branch",
    "find_tree",
    "is_dirty",
    "list_worktrees",
    "main_root",
    "merge_of",
    "remove_worktree",
    "rescue",
    "resolve_commit",
]

_HEADS = "refs/heads/"
_LOCK = "deepwork-worktrees.lock"


@dataclass(frozen=True, slots=True)
class Worktree:
    """A working tree that git has registered; its folder may be gone."""

    path: Path
    head: str | None
    branch: str | None
    is_main: bool
    is_bare: bool
    is_locked: bool
    lock_reason: str


def list_worktrees(git: Git) -> list[Worktree]:
    """All that are registered, the main one first."""
    with needs(git, "2.36", "Listing worktrees"):
        output = os.fsdecode(git.run("worktree", "list", "--porcelain", "-z"))
    blocks = [block.split("\0") for block in output.split("\0\0") if block.strip("\0")]
    return [_worktree(lines, is_main=number == 0) for number, lines in enumerate(blocks)]


def find_tree(git: Git, path: Path) -> Worktree | None:
    """The one that is registered at this path, if any."""
    wanted = path.resolve()
    return next((tree for tree in list_worktrees(git) if tree.path.resolve() == wanted), None)


def main_root(git: Git) -> Path:
    """The top of the main working tree, from wherever in a repository or its worktrees one asks."""
    main = list_worktrees(git)[0]
    if main.is_bare:
        raise GitError(
            f"{main.path} is a bare repository: it has no main working tree.",
            suggestion="Work in one of its worktrees; `git worktree list` shows them.",
        )
    if (main.path / ".git").exists():
        return main.path
    # In a submodule, or with its git directory elsewhere, git lists that directory instead.
    common = _common_dir(git)
    settings = ("config", "--file", str(common / "config"), "--get", "core.worktree")
    elsewhere = os.fsdecode(git.run(*settings, ok_codes=(0, 1)).removesuffix(b"\n"))
    if elsewhere:
        return (common / elsewhere).resolve()
    if _path(git, "--absolute-git-dir") == common:
        return _path(git, "--show-toplevel")
    raise GitError(
        f"The main working tree of {common} cannot be found from {git.root}.",
        suggestion="Work in the main working tree, or set core.worktree in its settings.",
    )


def add_worktree(
    git: Git, path: Path, branch: str, base: str | None = None, *, existing: bool = False
) -> str:
    """A new tree on a new branch that begins at `base`, HEAD if None; tells the commit where it begins.

    With `existing`, a branch of that name that is already there is taken as it is; its work began where it
    left the base. After a failure neither folder nor branch is left behind. No hook runs, and no filter
    either, since both are programs that a repository names: files of Git LFS are there as pointers, until
    someone runs `git lfs pull`.
    """
    check_branch_name(git, branch)
    start = commit_named(git, base)
    path = _outside_git(git, path)
    with _one_at_a_time(git), ExitStack() as undo:
        is_new = not has_branch(git, branch)
        begin = start if is_new else _begin_of_existing(git, branch, start, may_exist=existing)
        _forget_if_gone(git, path)
        _check_free(path)
        if is_new:
            _create_branch(git, branch, start)
            undo.callback(_quietly_delete_branch, git, branch, start)
        undo.callback(
            _remove_half_made, git, path, [parent for parent in path.parents if not parent.exists()]
        )
        git.run("worktree", "add", "--quiet", "--", str(path), branch)
        undo.pop_all()
    return begin


def remove_worktree(git: Git, path: Path, *, rescued: str | None = None) -> str | None:
    """Take a working tree away; its branch stays. Never with work that is on no branch.

    So `rescue` comes first: `rescued` is the branch that it made, which must hold the files as they are now.
    Where somebody has deleted the folder, only git's record of it goes; should that hold the last trace of
    commits made on a detached HEAD, they are kept on a rescue branch, whose name is the answer.
    """
    tree = find_tree(git, path)
    if tree is None:
        raise InvalidInput(
            f"{str(path)[:MAX_ECHOED]!r} is no worktree of this repository.",
            suggestion="`git worktree list` shows which there are.",
        )
    _check_removable(tree)
    outside = git.at(main_root(git)) if git.root.is_relative_to(tree.path.resolve()) else git
    with _one_at_a_time(git):
        if not _is_gone(tree.path):
            _remove_clean(outside, tree, rescued)
            return None
        return _forget(outside, tree)


# --- listing


def _worktree(lines: list[str], *, is_main: bool) -> Worktree:
    said = dict(line.partition(" ")[::2] for line in lines if line)
    return Worktree(
        path=Path(said["worktree"]),
        head=head if (head := said.get("HEAD", "")).strip("0") else None,
        branch=said["branch"].removeprefix(_HEADS) if "branch" in said else None,
        is_main=is_main,
        is_bare="bare" in said,
        is_locked="locked" in said,
        lock_reason=said.get("locked", ""),
    )


@contextmanager
def _one_at_a_time(git: Git) -> Iterator[None]:
    """So that whoever cleans up after a failure does not meet somebody else's tree."""
    with alone(_common_dir(git) / _LOCK):
        yield


def _common_dir(git: Git) -> Path:
    return _path(git, "--path-format=absolute", "--git-common-dir").resolve()


def _path(git: Git, *question: str) -> Path:
    return Path(os.fsdecode(git.run("rev-parse", *question).removesuffix(b"\n")))


# --- making


def _outside_git(git: Git, path: Path) -> Path:
    if "\0" in str(path):
        raise InvalidInput(f"{str(path)[:MAX_ECHOED]!r} cannot be the path of a folder.")
    path = (git.root / path).resolve()
    if path.is_relative_to(_common_dir(git)):
        raise InvalidInput(
            f"{str(path)[:MAX_ECHOED]!r} is inside the repository's git directory.",
            suggestion="Choose a folder next to the project, or one that git ignores.",
        )
    return path


def _check_free(path: Path) -> None:
    try:
        is_taken = path.is_symlink() or (path.exists() and (not path.is_dir() or any(path.iterdir())))
    except OSError as error:
        raise InvalidInput(f"{str(path)[:MAX_ECHOED]!r} cannot be used: {error.strerror}.") from error
    if is_taken:
        raise InvalidInput(
            f"{str(path)[:MAX_ECHOED]!r} exists and is not an empty folder.",
            suggestion="Choose a path that does not exist yet.",
        )


def _begin_of_existing(git: Git, branch: str, start: str, *, may_exist: bool) -> str:
    if not may_exist:
        raise InvalidInput(
            f"There is a branch {branch!r} already.",
            suggestion="Choose another name, or ask to use that branch.",
        )
    holder = next((tree for tree in list_worktrees(git) if tree.branch == branch), None)
    if holder is not None and not _is_gone(holder.path):
        raise InvalidInput(
            f"The branch {branch!r} is checked out in {holder.path}.",
            suggestion="Work there, or choose another branch.",
        )
    if holder is not None:
        _forget_if_gone(git, holder.path)
    begin = common_ancestor(git, start, commit_named(git, _HEADS + branch))
    if begin is None:
        raise InvalidInput(
            f"The branch {branch!r} has no commit in common with its base.",
            suggestion="Name the base that the branch was made from.",
        )
    return begin


def _create_branch(git: Git, branch: str, commit: str) -> None:
    other = branch_in_the_way(git, branch)
    if other is not None:
        raise InvalidInput(
            f"There can be no branch {branch!r} next to the branch {other!r}.",
            suggestion="Choose another name.",
        )
    create_branch(git, branch, commit)


def _forget_if_gone(git: Git, path: Path) -> None:
    tree = find_tree(git, path)
    if tree is not None and not tree.is_main and _is_gone(tree.path):
        _check_removable(tree)
        _forget(git, tree)


def _quietly_delete_branch(git: Git, branch: str, commit: str) -> None:
    with suppress(GitError):  # what went wrong before is what should be told
        delete_branch(git, branch, commit)


def _remove_half_made(git: Git, path: Path, new_parents: list[Path]) -> None:
    """What git has left of a worktree that it did not finish; nobody but us was at work on it."""
    shutil.rmtree(path, ignore_errors=True)
    with suppress(GitError):
        # Forced twice: git locks a tree while it makes it.
        git.run("worktree", "remove", "--force", "--force", "--", str(path))
    for parent in new_parents:
        with suppress(OSError):
            parent.rmdir()


# --- taking away


def _check_removable(tree: Worktree) -> None:
    if tree.is_main or tree.is_bare:
        raise NotAllowed(
            f"{tree.path} is the main working tree.", suggestion="Only additional worktrees can be removed."
        )
    if tree.is_locked:
        reason = f": {tree.lock_reason[:MAX_ECHOED]}" if tree.lock_reason else ""
        raise NotAllowed(
            f"The worktree {tree.path} is locked{reason}.",
            suggestion="Whoever locked it can run `git worktree unlock` on it.",
        )


def _is_gone(path: Path) -> bool:
    """Whether nothing is left of a tree, or no more than an empty folder."""
    return not os.path.lexists(path) or (path.is_dir() and not path.is_symlink() and not any(path.iterdir()))


def _forget(git: Git, tree: Worktree) -> str | None:
    """Take away git's record of a tree whose folder is gone; `prune` would forget others as well."""
    loose = tree.head if _is_loose(git, tree) else None
    saved = keep(git, loose, f"detached-{loose[:8]}") if loose else None
    with suppress(FileNotFoundError):
        tree.path.rmdir()
    git.run("worktree", "remove", "--", str(tree.path))
    return saved


def _is_loose(git: Git, tree: Worktree) -> bool:
    """Whether its HEAD is the last that holds its commits."""
    head = resolve_commit(git, tree.head) if tree.head and tree.branch is None else None
    return head is not None and not is_kept(git, head)


def _remove_clean(git: Git, tree: Worktree, rescued: str | None) -> None:
    if not (tree.path / ".git").exists():
        raise NotAllowed(
            f"{tree.path} has lost its .git: what is in there cannot be compared with any commit.",
            suggestion="Run `git worktree repair`, or save what is worth keeping and empty the folder.",
        )
    own = git.at(tree.path)
    with private_index(own) as index:
        nested, submodules = index.nested_repositories(), index.submodules()
    fetched = [path for path in submodules if (tree.path / path / ".git").exists()]
    if inside := [*nested, *fetched, *_trees_inside(git, tree.path)]:
        raise NotAllowed(
            f"{tree.path} holds repositories of their own: {', '.join(inside)[:MAX_ECHOED]}.",
            suggestion="Push or move their work, then delete their folders (`git submodule deinit`).",
        )
    is_saved = rescued is not None and holds_all(own, rescued)
    if not is_saved and (is_dirty(own) or _is_loose(git, tree)):
        raise NotAllowed(
            f"{tree.path} has work that is on no branch.", suggestion="Commit it, or have it rescued, first."
        )
    # Git refuses a tree with submodules even where none was ever fetched; those that were, we refused above.
    force = ["--force"] if is_saved or submodules else []
    git.run("worktree", "remove", *force, "--", str(tree.path))


def _trees_inside(git: Git, root: Path) -> Iterator[str]:
    for other in list_worktrees(git):
        if other.path != root and other.path.is_relative_to(root) and other.path.exists():
            yield str(other.path.relative_to(root))
