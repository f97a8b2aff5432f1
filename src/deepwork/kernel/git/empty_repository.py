"""A repository of our own for one question: no settings, ignore rules or attributes of others count there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from deepwork.kernel.errors import GitError

_HEAD = b"ref: refs/heads/none\n"
_SHA256_CONFIG = b"[core]\n\trepositoryFormatVersion = 1\n[extensions]\n\tobjectFormat = sha256\n"
_Mark = tuple[int, int, bytes | None]
"""The inode, the change time and the content of what is at a path; no content: a folder."""


@dataclass
class EmptyRepository:
    """Its working tree, which is empty at first, and the environment in which git works there."""

    folder: Path
    tree: Path
    environment: dict[str, str]
    made: dict[str, bytes] = field(default_factory=dict)
    """What was written here, and nothing else may be."""
    _sealed: dict[str, _Mark] | None = None

    def write(self, path: str, content: bytes) -> None:
        """Write a file, relative to the folder."""
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_bytes(content)
        self.made[path] = content

    def link(self, path: str, target: Path) -> None:
        """Make a link to a file elsewhere."""
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).symlink_to(target)
        self.made[path] = os.fsencode(target)

    def seal(self) -> None:
        """Note how everything is, before git is asked."""
        self._sealed = self._read_marks()

    def require_untouched(self) -> None:
        """Raise GitError if somebody changed something while git was asked: the answer may be theirs."""
        marks = self._read_marks()
        contents = {path: content for path, (_, _, content) in marks.items() if content is not None}
        if marks != self._sealed or contents != self.made:
            raise GitError("Somebody changed temporary files of deepwork while git used them.")

    def _read_marks(self) -> dict[str, _Mark]:
        found: dict[str, _Mark] = {}
        for place, folders, files in os.walk(self.folder):
            for path in (place, *(f"{place}/{name}" for name in (*folders, *files))):
                status = os.lstat(path)
                found[os.path.relpath(path, self.folder)] = (status.st_ino, status.st_ctime_ns, _read(path))
        return found


@contextmanager
def open_empty_repository(
    *, algorithm: str = "sha1", work_tree: Path | None = None, excludes: bytes = b""
) -> Iterator[EmptyRepository]:
    """Yield a temporary repository, optionally for another working tree and with these ignore rules."""
    with (
        TemporaryDirectory(prefix="deepwork-git-") as folder,
        TemporaryDirectory(prefix="deepwork-index-") as index,
    ):
        place = Path(folder)
        for name in ("git/objects", "git/refs", "tree"):
            (place / name).mkdir(parents=True)
        environment = {
            "GIT_DIR": f"{place}/git",
            "GIT_WORK_TREE": str(work_tree or place / "tree"),
            "GIT_INDEX_FILE": f"{index}/index",
            "GIT_CONFIG_COUNT": "2",
            "GIT_CONFIG_KEY_0": "core.excludesFile",
            "GIT_CONFIG_VALUE_0": f"{place}/excludes",
            "GIT_CONFIG_KEY_1": "core.attributesFile",
            "GIT_CONFIG_VALUE_1": os.devnull,
        }
        repository = EmptyRepository(place, work_tree or place / "tree", environment)
        repository.write("git/HEAD", _HEAD)
        repository.write("git/config", _SHA256_CONFIG if algorithm == "sha256" else b"")
        repository.write("excludes", excludes)
        repository.seal()
        yield repository
        repository.require_untouched()


def _read(path: str) -> bytes | None:
    """Read a file or a link, which git could follow; None for a folder."""
    if os.path.islink(path):  # noqa: PTH114 - faster
        return os.fsencode(os.readlink(path))  # noqa: PTH115 - Path would normalize it
    return None if os.path.isdir(path) else Path(path).read_bytes()  # noqa: PTH112 - faster
