"""A place aside for what git computes, so that a repository does not fill with what nobody will ask for."""

from __future__ import annotations

import os
from pathlib import Path

from deepwork.git.command import Git

_ESCAPED = {ord(character): f"\\{character}" for character in '"\\'} | {ord("\n"): "\\n"}


def stored_in(folder: Path, git: Git) -> dict[str, str]:
    """The environment in which git writes its objects to the folder, and reads the repository's as well."""
    answer = git.run("rev-parse", "--path-format=absolute", "--git-path", "objects")
    repository = os.fsdecode(answer.removesuffix(b"\n"))
    return {
        "GIT_OBJECT_DIRECTORY": str(folder),
        # Quoted: a colon in it would end it.
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": f'"{repository.translate(_ESCAPED)}"',
    }


def sweep(folder: Path, needed: set[str]) -> int:
    """Delete every single object in the folder but those that are needed, and what was never finished."""
    removed = 0
    for path in folder.glob("??/*"):
        if path.parent.name + path.name not in needed:
            path.unlink(missing_ok=True)
            removed += 1
    return removed
