"""Resolving and checking paths on this machine."""

from __future__ import annotations

from pathlib import Path

from deepwork.kernel.config import STATE_FOLDER
from deepwork.kernel.errors import MAX_ECHOED, Code, InvalidInput

WORKTREES = f"{STATE_FOLDER}/worktrees"
_MAX_NAME_BYTES, _MAX_PATH_LENGTH = 255, 4000


def resolve_path(field: str, given: str, relative_to: Path | None = None) -> str:
    """Resolve a path that a caller gave in parameter `field`: no links, no dots, absolute.

    Raises InvalidInput for a relative path without `relative_to`, and for paths that cannot exist.
    """
    path = _expand_path(field, given)
    if not path.is_absolute():
        if relative_to is None:
            raise InvalidInput(
                f"`{field}` must be an absolute path; {given[:200]!r} is relative.",
                suggestion="Pass the full path, starting with /.",
            )
        path = relative_to / path
    try:
        real = str(path.resolve())
        if (
            any(len(part) > _MAX_NAME_BYTES for part in real.encode().split(b"/"))
            or len(real) > _MAX_PATH_LENGTH
        ):
            raise InvalidInput(f"`{field}` is too long for a path.", suggestion="Choose a shorter one.")
    except UnicodeEncodeError:
        raise InvalidInput(f"`{field}` resolves to a name that is not UTF-8 and cannot be stored.") from None
    except (OSError, RuntimeError) as error:  # for example a loop of links
        raise InvalidInput(f"`{field}` cannot be resolved: {error}.") from None
    return real


def require_allowed_tree_path(repository: Path, path: Path, *, may_be_beside: bool) -> None:
    """Raise InvalidInput unless a worktree may be created at this path.

    That is in the repository's worktree folder or, for callers who own this machine, beside the repository in
    a folder that begins with its name: git fills the folder with the files of a branch, which would be keys
    in ~/.ssh and programs in ~/.config/autostart. Never in a folder that begins with a dot, and never inside
    another repository.
    """
    is_inside = path.is_relative_to(repository / WORKTREES) and path != repository / WORKTREES
    is_beside = may_be_beside and _is_beside(repository, path)
    if not (is_inside or is_beside) or ".git" in path.parts:
        beside = f" or in ../{repository.name}-NAME/" if may_be_beside else ""
        raise InvalidInput(
            f"No worktree can be created at {str(path)[:MAX_ECHOED]!r}: "
            f"worktrees go into {WORKTREES}/{beside}.",
            code=Code.PATH_OUTSIDE_PROJECT,
            suggestion=f"Choose a path such as {WORKTREES}/NAME.",
        )


def _is_beside(repository: Path, path: Path) -> bool:
    beside = repository.parent
    if not path.is_relative_to(beside):
        return False
    names = path.relative_to(beside).parts
    folders = [folder for folder in path.parents if folder.is_relative_to(beside) and folder != beside]
    return (
        bool(names)
        and names[0].startswith(f"{repository.name}-")
        and not any(name.startswith(".") for name in names)
        and not any((folder / ".git").exists() for folder in folders)
    )


def _expand_path(field: str, given: str) -> Path:
    if not given.strip():
        raise InvalidInput(f"`{field}` is empty.")
    try:
        return Path(given.strip()).expanduser()
    except RuntimeError as error:  # `~user` without such a user
        raise InvalidInput(f"`{field}` cannot be resolved: {error}.") from None
