"""A separate object store, so that temporary git objects do not accumulate in the user's repository."""

from __future__ import annotations

from pathlib import Path

from deepwork.kernel.git.command import Git

_QUOTE_ESCAPES = {ord(character): f"\\{character}" for character in '"\\'} | {ord("\n"): "\\n"}


def build_object_environment(folder: Path, git: Git) -> dict[str, str]:
    """Build an environment in which git writes objects to the folder and also reads the repository's."""
    repository = str(git.find_path("objects"))
    return {
        "GIT_OBJECT_DIRECTORY": str(folder),
        # Quoted, because a colon separates paths.
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": f'"{repository.translate(_QUOTE_ESCAPES)}"',
    }


def remove_unneeded_objects(folder: Path, needed: set[str]) -> int:
    """Delete every loose object that is not needed, and unfinished files; return how many."""
    removed = 0
    for path in folder.glob("??/*"):
        if path.parent.name + path.name not in needed:
            path.unlink(missing_ok=True)
            removed += 1
    return removed
