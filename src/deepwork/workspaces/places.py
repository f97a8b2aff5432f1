"""Where things are on this machine: paths as they really are, however somebody wrote them."""

from __future__ import annotations

from pathlib import Path

from deepwork.config import STATE_FOLDER, main_tree
from deepwork.errors import Code, InvalidInput

WORKTREES = f"{STATE_FOLDER}/worktrees"


def real_path(field: str, given: str, relative_to: Path | None = None) -> str:
    """The path without links and dots; a relative one is refused where nothing says what to."""
    path = _expanded(field, given)
    if not path.is_absolute():
        if relative_to is None:
            raise InvalidInput(
                f"`{field}` must be an absolute path; {given[:200]!r} is relative.",
                suggestion="Give the whole path, from / on.",
            )
        path = relative_to / path
    try:
        real = str(path.resolve())
        real.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"`{field}` leads to a name that is no text, and cannot be stored.") from None
    except (OSError, RuntimeError) as error:  # links that lead in a circle
        raise InvalidInput(f"`{field}` leads nowhere: {error}.") from None
    return real


def require_near(repository: Path, path: Path) -> None:
    """Refuse to make a tree anywhere but in the repository's own folder or beside it."""
    is_inside = path.is_relative_to(repository) and path != repository and ".git" not in path.parts
    is_beside = path.is_relative_to(repository.parent) and not path.is_relative_to(repository)
    if not is_inside and not (is_beside and path != repository.parent):
        raise InvalidInput(
            f"{str(path)[:200]!r} is neither in the repository's folder nor beside it.",
            code=Code.PATH_OUTSIDE_PROJECT,
            suggestion=f"Choose a path under {WORKTREES}/ or next to {repository.name}/.",
        )


def repository_of(path: Path) -> Path | None:
    """The main tree of the git repository that a path belongs to, found without asking git."""
    for folder in (path, *path.parents):
        if (folder / ".git").exists():
            return main_tree(folder) or folder
    return None


def _expanded(field: str, given: str) -> Path:
    if not given.strip():
        raise InvalidInput(f"`{field}` is empty.")
    try:
        return Path(given.strip()).expanduser()
    except RuntimeError as error:  # nobody's home
        raise InvalidInput(f"`{field}` leads nowhere: {error}.") from None
