"""What deepwork itself wrote into the folder `.deepwork`, and what of it can be removed."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator
from pathlib import Path

from deepwork.kernel.files.private import to_storage_error
from deepwork.kernel.records import dataclass
from deepwork.views.setup.project import render_config

_SETTINGS = "config.yml"
_OF_PEOPLE = (_SETTINGS, "checks.yml", "jobs", "templates")
"""What people write into the folder, which git keeps with the project."""
_IGNORE_FILE, _TREES = ".gitignore", "worktrees"


@dataclass(frozen=True)
class StateEntry:
    """A file or folder in `.deepwork`; `kept` says why it is not removed."""

    path: Path
    kept: str | None = None


def list_state(folder: Path, *, with_store: bool, leaving: Collection[Path] = ()) -> Iterator[StateEntry]:
    """List what is in the folder, the ignore file last: it goes when nothing else is left.

    `with_store`: everything that deepwork wrote is to be removed, not only empty folders. `leaving` are the
    worktrees that are removed before.
    """
    if folder.is_symlink() or not folder.is_dir():
        return
    is_empty = True
    for path in sorted(folder.iterdir()):
        if path.name != _IGNORE_FILE:
            entry = StateEntry(path, _find_reason_to_keep(path, with_store=with_store, leaving=leaving))
            is_empty = is_empty and entry.kept is None
            yield entry
    if (folder / _IGNORE_FILE).is_file() and is_empty:
        yield StateEntry(folder / _IGNORE_FILE)


def remove_entry(entry: StateEntry) -> None:
    """Remove a file or folder, and `.deepwork` with the last one."""
    try:
        if entry.path.is_dir() and not entry.path.is_symlink():
            shutil.rmtree(entry.path)
        else:
            entry.path.unlink(missing_ok=True)
        if not any(entry.path.parent.iterdir()):
            entry.path.parent.rmdir()
    except OSError as error:
        raise to_storage_error("remove", entry.path, error) from error


def _find_reason_to_keep(path: Path, *, with_store: bool, leaving: Collection[Path]) -> str | None:
    if path.name == _SETTINGS and path.is_file() and path.read_bytes() == render_config().encode():
        return None  # as `deepwork init` wrote it
    if path.name in _OF_PEOPLE:
        return "You wrote it: delete it yourself."
    if path.name == _TREES:
        stay = [each.parent for each in path.glob("**/.git") if each.parent not in leaving]
        return (
            f"{len(stay)} worktrees in it have work that is not over, merged and committed." if stay else None
        )
    return None if with_store else "It belongs to the store: --delete-store removes it."
