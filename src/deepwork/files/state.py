"""Creates the `.deepwork` folder of a project."""

from __future__ import annotations

from pathlib import Path

from deepwork.errors import StorageError

_GITIGNORE_TEXT = """\
# Written by deepwork: definitions and settings belong to the project, everything else to this machine.
*
!.gitignore
!config.yml
!jobs/
!jobs/**
!templates/
!templates/**
"""


def make_state_folder(folder: Path) -> None:
    """Create the folder, for its owner only, with a .gitignore that admits definitions and settings."""
    ignore = folder / ".gitignore"
    try:
        if not ignore.exists():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            ignore.write_text(_GITIGNORE_TEXT, encoding="utf-8")
    except OSError as error:
        raise StorageError(
            f"{folder.name}/ cannot be written in the project: {error.strerror}.",
            suggestion="Make the project writable for this user, or store everything elsewhere with --db.",
        ) from error
