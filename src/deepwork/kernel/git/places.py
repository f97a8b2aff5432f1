"""Where git keeps the parts of a repository, read from its files as git reads them.

Git answers the same questions (`rev-parse`), but with one program each. The files are read again for every
answer: that takes microseconds, and nothing that changed in between is missed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_SHARED = frozenset({"config", "info", "logs", "objects", "packed-refs", "refs", "shallow", "worktrees"})
_OWN = frozenset({"info/sparse-checkout", "logs/HEAD"})
_MAX_POINTER_BYTES = 2**16


@dataclass(frozen=True, slots=True)
class Places:
    """The folders of a working tree and its repository; all are absolute and without links."""

    top: Path
    git_dir: Path
    """Has the index and HEAD of this tree."""
    common_dir: Path
    """Has the settings, objects and branches, which linked worktrees share; mostly the same as `git_dir`."""

    def find(self, name: str) -> Path:
        """Return where a file of the repository is, such as `index` or `info/exclude`."""
        is_shared = name.partition("/")[0] in _SHARED and name not in _OWN
        return (self.common_dir if is_shared else self.git_dir) / name

    def is_complete(self) -> bool:
        """Return whether everything is there without which git would not take it for a repository."""
        has_head = os.path.lexists(self.git_dir / "HEAD")
        return has_head and (self.common_dir / "objects").is_dir() and (self.common_dir / "refs").is_dir()


def read_places(top: Path) -> Places:
    """Read the places of a working tree: its `.git` is the git folder, or a file that names it."""
    mark = top / ".git"
    said = _read_pointer(mark)
    git_dir = _resolve(top, said.removeprefix(b"gitdir: ")) if said.startswith(b"gitdir: ") else _real(mark)
    return Places(top, git_dir, _resolve(git_dir, _read_pointer(git_dir / "commondir")))


def _read_pointer(path: Path) -> bytes:
    """Return what a file says; nothing if it is a folder or missing."""
    try:
        # Without blocking: a pipe of that name must not stop us.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(descriptor, _MAX_POINTER_BYTES).rstrip(b"\r\n")
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _resolve(folder: Path, pointer: bytes) -> Path:
    return _real(folder / os.fsdecode(pointer)) if b"\0" not in pointer else folder


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
