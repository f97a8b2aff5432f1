"""Reads clients' config files and writes them atomically."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from deepwork.kernel.errors import Code, Conflict, DefinitionError, StorageError
from deepwork.kernel.files.private import to_storage_error, write_atomically
from deepwork.kernel.records import dataclass

_MAX_BYTES = 64 * 2**20


@dataclass(frozen=True)
class ConfigFileChange:
    """A planned change of one file; None means that the file does not exist."""

    path: Path
    about: tuple[str, ...]
    before: str | None
    after: str | None

    @property
    def action(self) -> str:
        """The kind of change: unchanged, deleted, created or changed."""
        if self.before == self.after:
            return "unchanged"
        if self.after is None:
            return "deleted"
        return "created" if self.before is None else "changed"


def read_text(path: Path) -> str | None:
    """Return the text of a file, following symbolic links; None if it does not exist."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise DefinitionError(
                f"{path} is not a regular file.", suggestion="Move it away, then run this again."
            )
        if path.stat().st_size > _MAX_BYTES:
            raise DefinitionError(f"{path} is larger than {_MAX_BYTES:,} bytes.", code=Code.TOO_LARGE)
        return path.read_bytes().decode()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise DefinitionError(
            f"{path}:{line}: The text is not UTF-8.", suggestion="Save it as UTF-8; nothing was changed."
        ) from None
    except OSError as error:
        raise StorageError(
            f"Cannot read {path}: {error.strerror or error}.",
            suggestion="Make the file readable, or move it away; nothing was changed.",
        ) from error


def apply_change(change: ConfigFileChange, *, new_mode: int) -> None:
    """Write or delete the file; follows symbolic links and keeps the permissions."""
    if change.action == "unchanged":
        return
    if read_text(change.path) != change.before:
        raise Conflict(
            f"{change.path} was just changed by another program.",
            suggestion="Run the command again; setup did not change that file.",
            recoverable=True,
        )
    if change.after is None:
        _delete(change.path)
    else:
        _write(change.path, change.after, new_mode)


def _write(path: Path, text: str, new_mode: int) -> None:
    target = Path(os.path.realpath(path))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    except OSError as error:
        raise to_storage_error("write", target, error) from error
    write_atomically(target, text.encode(), mode=new_mode if mode is None else mode)
    if mode is not None:
        target.chmod(mode)  # restore bits that the umask cleared


def _delete(path: Path) -> None:
    """Remove the file, and its hidden folder if that becomes empty."""
    try:
        path.unlink()
    except OSError as error:
        raise to_storage_error("remove", path, error) from error
    if path.parent.name.startswith("."):
        with suppress(OSError):  # not empty, or a link
            path.parent.rmdir()


def build_unreadable_error(path: Path, line: int, problem: str) -> DefinitionError:
    """Build the error for a file that cannot be parsed; the file stays unchanged."""
    return DefinitionError(
        f"{path}:{line}: {problem}.", suggestion="Correct the file and run this again; nothing was changed."
    )
