"""The token of the owner, and the codes with which a browser gets it.

A generated token ends with a mark, made with the key that also marks this user's stores. So a token that
came along with an archive, and that somebody else knows, is not used.
"""

from __future__ import annotations

import hmac
import logging
import os
import secrets
import stat
import time
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from deepwork.kernel.database.seals import check_tracking
from deepwork.kernel.database.store_key import find_user_key, get_or_create_user_key, hmac_hex
from deepwork.kernel.environment import find_secret_problem
from deepwork.kernel.errors import StorageError
from deepwork.kernel.files.private import write_atomically

CODE_SECONDS = 60.0
MAX_CODES = 16


class LoginCodes:
    """Codes that were issued and not used yet; each signs in as the owner, once, within a minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._expiries: OrderedDict[str, float] = OrderedDict()

    def create(self) -> str:
        """Issue a code; the oldest unused one gives way if there are too many."""
        code = secrets.token_urlsafe(32)
        self._expiries[_hash(code)] = self._clock() + CODE_SECONDS
        if len(self._expiries) > MAX_CODES:
            self._expiries.popitem(last=False)
        return code

    def redeem(self, code: str) -> bool:
        """Return whether the code is valid; it is not valid again."""
        # Found by its hash, so that the time of the search tells nothing about a code.
        return self._clock() < self._expiries.pop(_hash(code), 0.0)


def _hash(code: str) -> str:
    return sha256(code.encode()).hexdigest()


MIN_LENGTH = 16
_MARK_LENGTH = 32
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
        log.warning("%s Its token is replaced by a new one; sign in again with the new link.", unsafe)
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
    """Return why the token in the file is not a secret of this user: others may know it."""
    name = f"{file.parent.name}/{file.name}"
    try:
        status = file.lstat()
    except OSError:
        return None
    if stat.S_ISLNK(status.st_mode):
        return f"{name} is a link."
    if status.st_uid != os.getuid():
        return f"{name} belongs to another user."
    if stat.S_IMODE(status.st_mode) & 0o077:
        return f"Other users can read {name}."
    if (token := _read_token_file(file)) and not _is_marked(token):
        return f"{name} is not marked as yours: deepwork 0.2 made it, or it came from elsewhere."
    return None


def _read_token_file(file: Path) -> str | None:
    try:
        with os.fdopen(os.open(file, _READ_FLAGS), encoding="ascii") as opened:
            token = opened.read().strip()
    except (OSError, UnicodeDecodeError):
        return None
    return token if len(token) >= MIN_LENGTH else None


def _create_token_file(file: Path) -> str:
    secret = secrets.token_urlsafe(32)
    token = f"dw_{secret}-{_compute_mark(secret, _get_or_create_key())}"
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomically(file, token.encode() + b"\n")
    return token


def _is_marked(token: str) -> bool:
    """Return whether this user's key made the token; without a key, none did."""
    secret, _, mark = token.removeprefix("dw_").rpartition("-")
    try:
        key = find_user_key()
    except StorageError:
        return False
    return key is not None and hmac.compare_digest(mark.encode(), _compute_mark(secret, key).encode())


def _get_or_create_key() -> bytes:
    try:
        return get_or_create_user_key()
    except StorageError as error:  # such as in a container without a home: the token is good for this server
        log.warning("Each server creates a token of its own: %s", error)
        return secrets.token_bytes(32)


def _compute_mark(secret: str, key: bytes) -> str:
    return hmac_hex(key, f"owner token:{secret}")[:_MARK_LENGTH]
