"""Where things are on this machine: paths as they really are, however somebody wrote them."""

from __future__ import annotations

from pathlib import Path

from deepwork.config import STATE_FOLDER, main_tree
from deepwork.errors import MAX_ECHOED, Code, InvalidInput

WORKTREES = f"{STATE_FOLDER}/worktrees"
_LONGEST_NAME, _LONGEST_PATH = 255, 4000


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
        if any(len(part) > _LONGEST_NAME for part in real.encode().split(b"/")) or len(real) > _LONGEST_PATH:
            raise InvalidInput(f"`{field}` is longer than a path can be.", suggestion="Choose a shorter one.")
    except UnicodeEncodeError:
        raise InvalidInput(f"`{field}` leads to a name that is no text, and cannot be stored.") from None
    except (OSError, RuntimeError) as error:  # links that lead in a circle
        raise InvalidInput(f"`{field}` leads nowhere: {error}.") from None
    return real


def require_near(repository: Path, path: Path) -> None:
    """Refuse to make a tree anywhere but in the repository's own place for them, or beside the repository.

    Never inside another repository, and never where git keeps what it runs.
    """
    is_inside = path.is_relative_to(repository / WORKTREES) and path != repository / WORKTREES
    beside = repository.parent
    is_beside = path.is_relative_to(beside) and path != beside and not path.is_relative_to(repository)
    between = [folder for folder in path.parents if folder.is_relative_to(beside) and folder != beside]
    is_taken = is_beside and any((folder / ".git").exists() for folder in between)
    if not (is_inside or is_beside) or is_taken or ".git" in path.parts:
        raise InvalidInput(
            f"No tree is made at {str(path)[:MAX_ECHOED]!r}: trees go to {WORKTREES}/ or beside it.",
            code=Code.PATH_OUTSIDE_PROJECT,
            suggestion=f"Choose a path such as {WORKTREES}/NAME or ../{repository.name}-NAME.",
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
