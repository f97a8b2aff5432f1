"""Adds, finds and removes git worktrees, each on its own branch, without losing work."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from deepwork.kernel.errors import MAX_ECHOED, GitError, InvalidInput, NotAllowed
from deepwork.kernel.files.lock import hold_file_lock
from deepwork.kernel.files.repositories import (
    BRANCH_PREFIX,
    Places,
    RefsElsewhere,
    find_git_folder,
    find_tree_root,
    resolve_ref,
)
from deepwork.kernel.git.command import Git, require_version
from deepwork.kernel.git.private_index import open_private_index
from deepwork.kernel.git.refs import (
    check_branch_name,
    create_branch,
    delete_branch,
    find_common_ancestor,
    find_conflicting_branch,
    get_commit,
    has_branch,
    is_reachable,
    resolve_commit,
)
from deepwork.kernel.git.rescue import create_rescue_branch, has_all_work, is_dirty
from deepwork.kernel.records import dataclass

_LOCK_FILE_NAME = "deepwork-worktrees.lock"


@dataclass(frozen=True, slots=True)
class Worktree:
    """A worktree registered with git; its folder may have been deleted."""

    path: Path
    head: str | None
    branch: str | None
    is_main: bool
    is_bare: bool
    is_locked: bool
    lock_reason: str


@dataclass(frozen=True, slots=True)
class WorktreeMove:
    """A worktree that gets another folder and branch; without a folder, a branch that gets another name."""

    branch: str
    new_branch: str
    commit: str
    path: Path | None = None
    new_path: Path | None = None


def list_worktrees(git: Git, at: Path | None = None) -> list[Worktree]:
    """List all registered worktrees, the main one first, or only that `at` a path without links.

    Git is asked only if its refs are not in files.
    """
    common = git.find_places().common_dir
    with suppress(RefsElsewhere):
        return [*_read_main(git, common, at), *_read_linked(common, at)]
    with require_version(git, "2.36", "Listing worktrees"):
        output = os.fsdecode(git.run("worktree", "list", "--porcelain", "-z"))
    blocks = [block.split("\0") for block in output.split("\0\0") if block.strip("\0")]
    found = [_parse_worktree(lines, is_main=number == 0) for number, lines in enumerate(blocks)]
    return [tree for tree in found if _is_at(tree.path, at)]


def find_worktree(git: Git, path: Path) -> Worktree | None:
    """Return the worktree registered at this path, if any."""
    return next(iter(list_worktrees(git, path.resolve())), None)


def get_main_root(git: Git) -> Path:
    """Return the root of the main working tree, from anywhere in the repository or its worktrees."""
    main = list_worktrees(git)[0]
    if main.is_bare:
        raise GitError(
            f"{main.path} is a bare repository: it has no main working tree.",
            suggestion="Work in one of its worktrees; `git worktree list` shows them.",
        )
    if (main.path / ".git").exists():
        return main.path
    # In a submodule, or with a separate git directory, git lists that directory instead.
    common, top = _get_common_dir(git), find_tree_root(git.root)
    if top is not None and git.find_places().git_dir == common:
        return top
    settings = ("config", "--file", str(common / "config"), "--get", "core.worktree")
    elsewhere = os.fsdecode(git.run(*settings, ok_codes=(0, 1)).removesuffix(b"\n"))
    named = (common / elsewhere).resolve()
    if elsewhere and find_git_folder(named).resolve() == common:  # the tree has to name it, too
        return named
    raise GitError(
        f"The main working tree of {common} cannot be found from {git.root}.",
        suggestion="Work in the main working tree, or set core.worktree in its git config.",
    )


def add_worktree(
    git: Git, path: Path, branch: str, base: str | None = None, *, existing: bool = False
) -> str:
    """Add a worktree on a new branch that starts at `base` (default HEAD); return its start commit.

    With `existing`, an existing branch of that name is checked out; its start is its merge base with `base`.
    After a failure neither folder nor branch is left behind. Hooks and filters do not run, since a
    repository can name arbitrary programs for both: Git LFS files are pointers until someone runs
    `git lfs pull`.
    """
    check_branch_name(branch)
    start = get_commit(git, base)
    path = _resolve_outside_git(git, path)
    with _lock_worktrees(git), ExitStack() as undo:
        is_new = not has_branch(git, branch)
        begin = start if is_new else _find_existing_start(git, branch, start, may_exist=existing)
        _forget_if_gone(git, path)
        _check_free(path)
        if is_new:
            _create_branch(git, branch, start)
            undo.callback(_delete_branch_quietly, git, branch, start)
        undo.callback(
            _remove_unfinished, git, path, [parent for parent in path.parents if not parent.exists()]
        )
        git.run("worktree", "add", "--quiet", "--", str(path), branch)
        undo.pop_all()
    return begin


def remove_worktree(git: Git, path: Path, *, rescued: str | None = None) -> str | None:
    """Remove a worktree and keep its branch; refuses if it has work that is on no branch.

    So call `rescue` first: `rescued` is the branch it created, which must hold the files as they are now.
    If the folder was deleted, only git's record is removed. If that was the last reference to commits of a
    detached HEAD, they are saved on a rescue branch, whose name is returned.
    """
    tree = find_worktree(git, path)
    if tree is None:
        raise InvalidInput(
            f"{str(path)[:MAX_ECHOED]!r} is not a worktree of this repository.",
            suggestion="`git worktree list` shows them.",
        )
    _check_removable(tree)
    outside = git.at(get_main_root(git)) if git.root.is_relative_to(tree.path.resolve()) else git
    with _lock_worktrees(git):
        if not _is_gone(tree.path):
            _remove_clean(outside, tree, rescued)
            return None
        return _remove_record(outside, tree)


def move_worktree(git: Git, move: WorktreeMove) -> None:
    """Give a tree another folder and another branch at the same commit; can be repeated after a crash.

    Everything in the folder moves with it, ignored files too. Without a folder only the branch is renamed.
    """
    with _lock_worktrees(git):
        if not has_branch(git, move.new_branch):
            create_branch(git, move.new_branch, move.commit)
        if move.path is not None and move.new_path is not None:
            here = move.path if find_worktree(git, move.path) else move.new_path
            git.at(here).run("symbolic-ref", "HEAD", BRANCH_PREFIX + move.new_branch)
        if has_branch(git, move.branch):
            delete_branch(git, move.branch, move.commit)
        if move.path is not None and find_worktree(git, move.path):
            git.run("worktree", "move", "--", str(move.path), str(move.new_path))


def require_movable(git: Git, path: Path) -> None:
    """Raise NotAllowed if git cannot move the worktree."""
    tree = find_worktree(git, path)
    if tree is None:
        raise NotAllowed(f"{path} is not a worktree of this repository any more.")
    _check_removable(tree)
    with open_private_index(git.at(tree.path)) as index:
        submodules = index.list_submodules()
    if submodules:
        raise NotAllowed(
            f"{path} has submodules ({', '.join(submodules)[:MAX_ECHOED]}), so git cannot move it.",
            suggestion="Keep it as it is, or remove the submodules first.",
        )


# --- listing


def _read_main(git: Git, common: Path, at: Path | None) -> Iterator[Worktree]:
    path = common.parent if common.name == ".git" else common
    if _is_at(path, at):
        is_bare = git.is_bare(Places(common, common, common))
        yield _build_worktree(path, common, is_main=True, is_bare=is_bare)


def _read_linked(common: Path, at: Path | None) -> Iterator[Worktree]:
    for folder in sorted((common / "worktrees").glob("*")):
        with suppress(OSError):  # git leaves out what it cannot read
            mark = folder / os.fsdecode((folder / "gitdir").read_bytes().rstrip())
            path = mark.parent if mark.name == ".git" else mark
            if _is_at(path, at):
                yield _build_worktree(path, folder)


def _is_at(path: Path, wanted: Path | None) -> bool:
    return wanted is None or path == wanted or path.resolve() == wanted


def _build_worktree(path: Path, folder: Path, *, is_main: bool = False, is_bare: bool = False) -> Worktree:
    ref, head = ("", None) if is_bare else resolve_ref(folder, "HEAD")
    branch = ref.removeprefix(BRANCH_PREFIX) if ref.startswith(BRANCH_PREFIX) else None
    lock = None if is_main else _read_lock(folder / "locked")
    return Worktree(path, head, branch, is_main, is_bare, lock is not None, lock or "")


def _read_lock(file: Path) -> str | None:
    try:
        return os.fsdecode(file.read_bytes().strip())
    except OSError:
        return None


def _parse_worktree(lines: list[str], *, is_main: bool) -> Worktree:
    said = dict(line.partition(" ")[::2] for line in lines if line)
    return Worktree(
        path=Path(said["worktree"]),
        head=head if (head := said.get("HEAD", "")).strip("0") else None,
        branch=said["branch"].removeprefix(BRANCH_PREFIX) if "branch" in said else None,
        is_main=is_main,
        is_bare="bare" in said,
        is_locked="locked" in said,
        lock_reason=said.get("locked", ""),
    )


@contextmanager
def _lock_worktrees(git: Git) -> Iterator[None]:
    """Hold a lock, so that cleanup after a failure cannot affect a concurrently added worktree."""
    with hold_file_lock(_get_common_dir(git) / _LOCK_FILE_NAME):
        yield


def _get_common_dir(git: Git) -> Path:
    return git.find_places().common_dir.resolve()


# --- adding


def _resolve_outside_git(git: Git, path: Path) -> Path:
    if "\0" in str(path):
        raise InvalidInput(f"{str(path)[:MAX_ECHOED]!r} is not a valid folder path.")
    path = (git.root / path).resolve()
    if path.is_relative_to(_get_common_dir(git)):
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


def _find_existing_start(git: Git, branch: str, start: str, *, may_exist: bool) -> str:
    if not may_exist:
        raise InvalidInput(
            f"The branch {branch!r} already exists.",
            suggestion="Choose another name, or pass existing=True to use that branch.",
        )
    holder = next((tree for tree in list_worktrees(git) if tree.branch == branch), None)
    if holder is not None and not _is_gone(holder.path):
        raise InvalidInput(
            f"The branch {branch!r} is checked out in {holder.path}.",
            suggestion="Work there, or choose another branch.",
        )
    if holder is not None:
        _forget_if_gone(git, holder.path)
    begin = find_common_ancestor(git, start, get_commit(git, BRANCH_PREFIX + branch))
    if begin is None:
        raise InvalidInput(
            f"The branch {branch!r} has no commit in common with its base.",
            suggestion="Name the base that the branch was created from.",
        )
    return begin


def _create_branch(git: Git, branch: str, commit: str) -> None:
    try:
        create_branch(git, branch, commit)
    except GitError as error:
        other = find_conflicting_branch(git, branch)
        if other is None:
            raise
        raise InvalidInput(
            f"The branch {branch!r} cannot exist beside the branch {other!r}.",
            suggestion="Choose another name.",
        ) from error


def _forget_if_gone(git: Git, path: Path) -> None:
    tree = find_worktree(git, path)
    if tree is not None and not tree.is_main and _is_gone(tree.path):
        _check_removable(tree)
        _remove_record(git, tree)


def _delete_branch_quietly(git: Git, branch: str, commit: str) -> None:
    with suppress(GitError):  # the original error is the one to report
        delete_branch(git, branch, commit)


def _remove_unfinished(git: Git, path: Path, new_parents: list[Path]) -> None:
    """Remove what is left of a worktree that git did not finish; the lock guarantees that it is ours."""
    shutil.rmtree(path, ignore_errors=True)
    with suppress(GitError):
        # Forced twice, because git locks a worktree while it creates it.
        git.run("worktree", "remove", "--force", "--force", "--", str(path))
    for parent in new_parents:
        with suppress(OSError):
            parent.rmdir()


# --- removing


def _check_removable(tree: Worktree) -> None:
    if tree.is_main or tree.is_bare:
        raise NotAllowed(
            f"{tree.path} is the main working tree.", suggestion="Only additional worktrees can be removed."
        )
    if tree.is_locked:
        reason = f": {tree.lock_reason[:MAX_ECHOED]}" if tree.lock_reason else ""
        raise NotAllowed(
            f"The worktree {tree.path} is locked{reason}.",
            suggestion="Run `git worktree unlock` on it once the lock is no longer needed.",
        )


def _is_gone(path: Path) -> bool:
    """Return whether the folder does not exist or is empty."""
    return not os.path.lexists(path) or (path.is_dir() and not path.is_symlink() and not any(path.iterdir()))


def _remove_record(git: Git, tree: Worktree) -> str | None:
    """Remove git's record of a worktree whose folder is gone; `prune` would affect other worktrees too."""
    loose = tree.head if _is_loose(git, tree) else None
    saved = create_rescue_branch(git, loose, f"detached-{loose[:8]}") if loose else None
    with suppress(FileNotFoundError):
        tree.path.rmdir()
    git.run("worktree", "remove", "--", str(tree.path))
    return saved


def _is_loose(git: Git, tree: Worktree) -> bool:
    """Return whether only its detached HEAD refers to its commits."""
    head = resolve_commit(git, tree.head) if tree.head and tree.branch is None else None
    return head is not None and not is_reachable(git, head)


def _remove_clean(git: Git, tree: Worktree, rescued: str | None) -> None:
    if not (tree.path / ".git").exists():
        raise NotAllowed(
            f"{tree.path} has lost its .git, so its files cannot be compared with any commit.",
            suggestion="Run `git worktree repair`, or save the files you need and empty the folder.",
        )
    own = git.at(tree.path)
    with open_private_index(own) as index:
        nested, submodules = index.list_nested_repositories(), index.list_submodules()
    fetched = [path for path in submodules if (tree.path / path / ".git").exists()]
    if inside := [*nested, *fetched, *_list_nested_worktrees(git, tree.path)]:
        raise NotAllowed(
            f"{tree.path} contains nested repositories: {', '.join(inside)[:MAX_ECHOED]}.",
            suggestion="Push or move their work, then delete their folders (`git submodule deinit`).",
        )
    is_saved = rescued is not None and has_all_work(own, rescued)
    if not is_saved and (is_dirty(own) or _is_loose(git, tree)):
        raise NotAllowed(
            f"{tree.path} has work that is on no branch.", suggestion="Commit or rescue it first."
        )
    # Git refuses worktrees with submodules even if none was fetched; fetched ones were refused above.
    force = ["--force"] if is_saved or submodules else []
    git.run("worktree", "remove", *force, "--", str(tree.path))


def _list_nested_worktrees(git: Git, root: Path) -> Iterator[str]:
    for other in list_worktrees(git):
        if other.path != root and other.path.is_relative_to(root) and other.path.exists():
            yield str(other.path.relative_to(root))
