"""The owner's token: the configured one, or one generated and stored for this project."""

from __future__ import annotations

import logging
import os
import secrets
import stat
from pathlib import Path

from deepwork.database.adoption import check_tracking
from deepwork.environment import find_secret_problem
from deepwork.errors import StorageError
from deepwork.files.atomic import write_atomically

MIN_LENGTH = 16
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK

log = logging.getLogger("deepwork")


def load_token(configured: str, file: Path) -> str:
    """Return the configured token, else load or create the stored one; there is always one."""
    if configured:
        if weak := find_secret_problem("DEEPWORK_TOKEN", configured, MIN_LENGTH):
            raise weak
        return configured
    if tracked := find_tracked_token_problem(file):
        raise tracked
    if unsafe := find_token_file_problem(file):
        log.warning("%s Its token is replaced by a new one.", unsafe)
        return _create_token_file(file)
    return _read_token_file(file) or _create_token_file(file)


def find_tracked_token_problem(file: Path) -> StorageError | None:
    """Return the error of a token file that git tracks: others know that token, and would know a new one."""
    if not check_tracking(file):
        return None
    return StorageError(
        f"git tracks {file.parent.name}/{file.name}: a token from a repository is known to others.",
        suggestion=f"Run `git rm --cached {file.parent.name}/{file.name}`, commit that, delete the file and "
        "start again: deepwork creates another token.",
    )


def find_token_file_problem(file: Path) -> str | None:
    """Return why the token in the file is not a secret: others could have read or written it."""
    name = f"{file.parent.name}/{file.name}"
    try:
        status = file.lstat()
    except OSError:
        return None
    if stat.S_ISLNK(status.st_mode):
        return f"{name} is a link."
    if status.st_uid != os.getuid():
        return f"{name} belongs to another user."
    return f"Other users can read {name}." if stat.S_IMODE(status.st_mode) & 0o077 else None


def _read_token_file(file: Path) -> str | None:
    try:
        with os.fdopen(os.open(file, _READ_FLAGS), encoding="ascii") as opened:
            token = opened.read().strip()
    except (OSError, UnicodeDecodeError):
        return None
    return token if len(token) >= MIN_LENGTH else None


def _create_token_file(file: Path) -> str:
    token = f"dw_{secrets.token_urlsafe(32)}"
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomically(file, token.encode() + b"\n")
    return token
