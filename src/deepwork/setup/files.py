"""Other programs' files: read as they are, written whole or not at all."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from deepwork.errors import Code, Conflict, DefinitionError, StorageError
from deepwork.files.atomic import write_atomically
from deepwork.files.failures import storage_failure

_MAX_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Change:
    """What becomes of one file; None where there is none."""

    path: Path
    about: tuple[str, ...]
    before: str | None
    after: str | None

    @property
    def action(self) -> str:
        """What it does, in one word."""
        if self.before == self.after:
            return "unchanged"
        if self.after is None:
            return "deleted"
        return "created" if self.before is None else "changed"


def read_text(path: Path) -> str | None:
    """The text of a file, symbolic links followed; None if there is none."""
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
            suggestion="Give yourself the right to read it, or move it away; nothing was changed.",
        ) from error


def apply(change: Change, *, new_mode: int) -> None:
    """Carry a change out, in the file that a symbolic link leads to, with the rights it has."""
    if change.action == "unchanged":
        return
    if read_text(change.path) != change.before:
        raise Conflict(
            f"{change.path} was changed by another program just now.",
            suggestion="Run the command again; nothing of that file was changed.",
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
        raise storage_failure("write", target, error) from error
    write_atomically(target, text.encode(), mode=new_mode if mode is None else mode)
    if mode is not None:
        target.chmod(mode)  # what the umask took away


def _delete(path: Path) -> None:
    """Remove a file that holds nothing without us, and the folder around it if that is empty then."""
    try:
        path.unlink()
    except OSError as error:
        raise storage_failure("remove", path, error) from error
    if path.parent.name.startswith("."):
        with suppress(OSError):  # somebody else keeps something there, or it is a link
            path.parent.rmdir()


def refused(path: Path, line: int, problem: str) -> DefinitionError:
    """A file that cannot be read is named by line, and stays as it is."""
    return DefinitionError(
        f"{path}:{line}: {problem}.", suggestion="Correct the file and run this again; nothing was changed."
    )
