"""The user's key, and the keys of stores that are made from it.

Every store has a key of its own, which digests its tokens and chains its audit log. PostgreSQL keeps it in
a row that only the database role can read. In a SQLite file, which may come from anywhere, it is sealed
with the user's key, and the mark proves that the same user wrote the row. So a file that came with a
repository has no valid mark and no valid token, and tokens stay valid in a backup that its own user
restores.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepwork.kernel.environment import STORE_KEY_VARIABLE, find_secret_problem, get_user_folder
from deepwork.kernel.errors import DeepworkError, StorageError
from deepwork.kernel.files.private import make_folder, sync_directory
from deepwork.kernel.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping
    from hashlib import sha256
else:
    # Every hook checks a mark, and `hashlib` loads OpenSSL, which takes longer than the rest of the check.
    try:
        from _sha2 import sha256
    except ImportError:
        try:
            from _sha256 import sha256  # Python 3.11
        except ImportError:
            from hashlib import sha256

TABLE = "store_identity"
COLUMNS = ("id", "secret", "keyed_from", "mark")
SEALED_MARK = "sealed mark"
_FIRST_MARK = "mark"
"""The mark of stores that may have no seals yet: deepwork 0.2 made them."""
_BLOCK = 64
_KEY_BYTES = 32


@dataclass(frozen=True)
class StoreIdentity:
    """The row of a store that says which store it is, and whose."""

    id: str
    secret: str = field(repr=False)
    """The key of the store; in a SQLite file sealed with the user's key."""
    keyed_from: int
    mark: str
    """Proves that the user with the key wrote this row; empty on PostgreSQL."""


@dataclass(frozen=True)
class StoreKey:
    """The key of one store."""

    store_id: str
    key: bytes = field(repr=False)
    keyed_from: int = 1
    """The first entry of the audit log that is chained with the key: earlier ones are older than it."""

    def compute_digest(self, text: str) -> str:
        """Compute the keyed digest of a text."""
        inner, outer = self.pads
        return sha256(outer + sha256(inner + text.encode()).digest()).hexdigest()

    @cached_property
    def pads(self) -> tuple[bytes, bytes]:
        """The inner and outer blocks of HMAC, with which SQL can compute it too."""
        return _build_pads(self.key)


def derive_user_key(text: str) -> bytes:
    """Derive the user's key from the text of the key file, or of the variable in the environment."""
    return compute_hmac(b"deepwork user key", text.strip().encode())


def create_store_key(keyed_from: int = 1) -> StoreKey:
    """Create a random key, with a random id: an id never has two keys."""
    return StoreKey(os.urandom(16).hex(), os.urandom(_KEY_BYTES), keyed_from)


def seal_key(key: StoreKey, user_key: bytes) -> StoreIdentity:
    """Build the row of a SQLite store."""
    secret = _apply_pad(key.key, key.store_id, user_key).hex()
    return StoreIdentity(
        *(key.store_id, secret, key.keyed_from),
        _compute_mark(SEALED_MARK, key.store_id, secret, key.keyed_from, user_key),
    )


def unseal_key(identity: StoreIdentity, user_key: bytes) -> StoreKey | None:
    """Return the key of a SQLite store; None if the user with this key did not mark it."""
    if not any(_has_mark(identity, kind, user_key) for kind in (SEALED_MARK, _FIRST_MARK)):
        return None
    key = _apply_pad(bytes.fromhex(identity.secret), identity.id, user_key)
    return StoreKey(identity.id, key, identity.keyed_from)


def is_marked_sealed(identity: StoreIdentity, user_key: bytes) -> bool:
    """Return whether the store had seals when it was marked: then no migration may make them again."""
    return _has_mark(identity, SEALED_MARK, user_key)


def expose_key(key: StoreKey) -> StoreIdentity:
    """Build the row of a PostgreSQL store."""
    return StoreIdentity(key.store_id, key.key.hex(), key.keyed_from, "")


def read_exposed_key(identity: StoreIdentity) -> StoreKey:
    """Return the key of a PostgreSQL store."""
    return StoreKey(identity.id, bytes.fromhex(identity.secret), identity.keyed_from)


def parse_identity(row: Mapping[str, Any]) -> StoreIdentity:
    """Parse the row; its values may have any type, since anybody may have written the file."""
    return StoreIdentity(str(row["id"]), str(row["secret"]), int(row["keyed_from"]), str(row["mark"]))


def compute_hmac(key: bytes, message: bytes) -> bytes:
    """Compute HMAC-SHA256."""
    inner, outer = _build_pads(key)
    return sha256(outer + sha256(inner + message).digest()).digest()


def hmac_hex(key: bytes, text: str) -> str:
    """Compute HMAC-SHA256 of a text, in hexadecimal; SQLite calls it as a function."""
    return compute_hmac(key, text.encode()).hex()


@lru_cache(maxsize=8)
def _build_pads(key: bytes) -> tuple[bytes, bytes]:
    block = (sha256(key).digest() if len(key) > _BLOCK else key).ljust(_BLOCK, b"\0")
    return bytes(byte ^ 0x36 for byte in block), bytes(byte ^ 0x5C for byte in block)


def _has_mark(identity: StoreIdentity, kind: str, user_key: bytes) -> bool:
    expected = _compute_mark(kind, identity.id, identity.secret, identity.keyed_from, user_key)
    return _equals_securely(expected, identity.mark)


def _compute_mark(kind: str, id: str, secret: str, keyed_from: int, user_key: bytes) -> str:
    return hmac_hex(user_key, f"{kind}:{id}:{secret}:{keyed_from}")


def _apply_pad(key: bytes, id: str, user_key: bytes) -> bytes:
    """Seal or unseal a key: a pad is used for one key only, because every key has an id of its own."""
    pad = compute_hmac(user_key, f"seal:{id}".encode())
    return bytes(one ^ other for one, other in zip(key, pad, strict=True))


def _equals_securely(one: str, other: str) -> bool:
    """Compare digests under a random key, so that the time says nothing about the texts."""
    key = os.urandom(_KEY_BYTES)
    return compute_hmac(key, one.encode()) == compute_hmac(key, other.encode())


KEY_FILE = "store.key"
MIN_LENGTH = 32
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_NEW_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def find_user_key(environment: Mapping[str, str] = os.environ) -> bytes | None:
    """Return the key of this user; None if there is none yet. Raises StorageError if it is not safe."""
    if text := environment.get(STORE_KEY_VARIABLE):
        if problem := find_secret_problem(STORE_KEY_VARIABLE, text, MIN_LENGTH):
            raise problem
        return derive_user_key(text)
    texts = (_read_key_file(path) for path in _list_key_paths(environment))
    text = next(filter(None, texts), None)
    return derive_user_key(text) if text else None


def get_or_create_user_key(environment: Mapping[str, str] = os.environ) -> bytes:
    """Return the key of this user; creates it on first use."""
    key = find_user_key(environment)
    if key is not None:
        return key
    text = os.urandom(32).hex()
    first, *others = _list_key_paths(environment)
    _create_key_file(first, text)
    for path in others:
        with suppress(StorageError):
            _create_key_file(path, _read_key_file(first) or text)
    key = find_user_key(environment)
    if key is None:
        raise _build_error(
            get_key_path(environment), "was removed while it was created", "Run the command again"
        )
    return key


def _list_key_paths(environment: Mapping[str, str]) -> list[Path]:
    """List where the key may be. Many clients start servers without XDG_CONFIG_HOME, so also without it."""
    return list(dict.fromkeys((get_key_path(environment), get_key_path({}))))


def get_key_path(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the key file."""
    return get_user_folder(environment) / KEY_FILE


def find_key_problems(environment: Mapping[str, str] = os.environ) -> Iterator[DeepworkError]:
    """Yield the reasons why the key cannot be used."""
    try:
        find_user_key(environment)
    except DeepworkError as error:
        yield error


def format_key_place(environment: Mapping[str, str] = os.environ) -> str:
    """Format for messages where the key is: the variable, or the path of the file."""
    if environment.get(STORE_KEY_VARIABLE):
        return STORE_KEY_VARIABLE
    return _format_key_path(get_key_path(environment))


def _format_key_path(path: Path) -> str:
    """Format the path without the name of the home folder."""
    home = Path.home()
    return (
        f"~/{path.relative_to(home)}"
        if path.is_relative_to(home)
        else f"$XDG_CONFIG_HOME/deepwork/{path.name}"
    )


def _read_key_file(path: Path) -> str | None:
    """Read the file, if only this user can write its folder and read it; None if there is none."""
    try:
        folder = path.parent.lstat()
        descriptor = os.open(path, _READ_FLAGS)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if path.is_symlink():
            raise _build_error(
                path, "is a link", f"Replace it by the file itself, or remove it: {_REMOVE_HINT}"
            ) from None
        raise _build_error(
            path, f"cannot be read: {error.strerror}", "Make it readable for this user only"
        ) from error
    with os.fdopen(descriptor, "rb") as file:
        _require_private(path, folder, os.fstat(descriptor))
        content = file.read(4096)
    text = content.decode("ascii", "replace").strip()
    if len(text) < MIN_LENGTH:
        raise _build_error(
            path, "is damaged: it is too short", f"Restore it from a backup, or remove it: {_REMOVE_HINT}"
        )
    return text


def _require_private(path: Path, folder: os.stat_result, file: os.stat_result) -> None:
    shown = _format_key_path(path)
    if not stat.S_ISREG(file.st_mode):
        raise _build_error(path, "is not a file", f"Remove it: {_REMOVE_HINT}")
    if file.st_uid != os.getuid():
        raise _build_error(
            path, "belongs to another user", f"Give it to this user: chown {os.getuid()} {shown}"
        )
    if stat.S_IMODE(file.st_mode) & 0o077:
        raise _build_error(path, "is open to other users", f"Close it: chmod 600 {shown}")
    if stat.S_ISLNK(folder.st_mode):
        raise _build_error(
            path,
            "is in a folder that is a link",
            f"Replace the link by a folder: {shown.rpartition('/')[0]}, or set {STORE_KEY_VARIABLE}",
        )
    if folder.st_uid not in {os.getuid(), 0} or stat.S_IMODE(folder.st_mode) & 0o022:
        raise _build_error(
            path,
            "is in a folder that other users can change",
            f"Close it: chmod 700 {shown.rpartition('/')[0]}",
        )


def _create_key_file(path: Path, text: str) -> None:
    """Create the file with this key; of several processes, one creates it and all use it.

    It gets its name only when it is complete, and a link cannot replace an existing file.
    """
    temporary = path.with_name(f".{path.name}.{os.urandom(8).hex()}.tmp")
    try:
        make_folder(path.parent)
        with os.fdopen(os.open(temporary, _NEW_FILE_FLAGS, 0o600), "wb") as file:
            file.write(text.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(temporary, path, follow_symlinks=False)
        sync_directory(path.parent)  # a store that survives a power failure is of no use without its key
    except OSError as error:
        raise _build_error(
            path,
            f"cannot be created: {error.strerror}",
            f"Make the folder writable for this user, or set {STORE_KEY_VARIABLE}",
        ) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


_REMOVE_HINT = "deepwork creates another key, with which your stores must be adopted (`deepwork db adopt`)"


def _build_error(path: Path, problem: str, suggestion: str) -> StorageError:
    return StorageError(
        f"The key of your stores, {_format_key_path(path)}, {problem}.", suggestion=f"{suggestion}."
    )
