"""Snapshots of folders without a git repository: the checksum of every file."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from deepwork.kernel.call import current_call
from deepwork.kernel.errors import GitError
from deepwork.kernel.files.lock import hold_file_lock, is_locked
from deepwork.kernel.files.private import write_atomically
from deepwork.kernel.git.snapshot_types import (
    LARGEST_UNTRACKED,
    FileChange,
    ListedFile,
    Rename,
    Snapshot,
    SnapshotDiff,
    SnapshotKind,
    add_listed_changes,
)

# Generated folders; without git there is no .gitignore to consult.
_IGNORED_FOLDERS = frozenset(
    {
        ".cache",
        ".deepwork",
        ".git",
        ".hg",
        ".mypy_cache",
        ".next",
        ".nox",
        ".pytest_cache",
        ".ruff_cache",
        ".svn",
        ".tox",
        ".venv",
        "__pycache__",
        "build",
        "dist",
        "node_modules",
        "target",
        "venv",
    }
)
_MAX_FILES = 50_000
_MAX_SECONDS = 10.0
_REPORT_EVERY = 1000
_MIN_TRUSTED_AGE_NS = 2 * 10**9

_Files = dict[str, str]
_ChecksumCache = dict[str, tuple[int, int, int, str]]


class ChecksumSnapshotStore:
    """The checksum snapshots of one folder."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._root = os.fspath(root)
        self._folder = folder / "checksums"
        self._own = os.fspath(folder.resolve())
        self._lock = self._folder / "lock"
        self._cache: _ChecksumCache = {}

    def take(self) -> Snapshot:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with hold_file_lock(self._lock):
            files, listed, unreadable = self._read_files()
            content = json.dumps(files, sort_keys=True).encode()
            name = hashlib.sha256(content).hexdigest()
            if not self._get_path(name).exists():
                write_atomically(self._get_path(name), content, is_durable=False)
        return Snapshot(SnapshotKind.CHECKSUM, name, listed=tuple(listed), unreadable=tuple(unreadable))

    def diff(self, before: Snapshot, after: Snapshot) -> SnapshotDiff:
        old, new = self._load_files(before), self._load_files(after)
        changes = tuple(
            FileChange(path, old.get(path), new.get(path))
            for path in sorted(old.keys() | new.keys())
            if old.get(path) != new.get(path)
        )
        return add_listed_changes(before, after, SnapshotDiff(changes, tuple(_find_renames(changes))))

    def prune(self, keep: set[str]) -> int:
        removed = 0
        for path in self._folder.glob("*.json"):
            if path.stem not in keep:
                path.unlink(missing_ok=True)
                removed += 1
        return removed

    def _get_path(self, name: str) -> Path:
        return self._folder / f"{name}.json"

    def _load_files(self, snapshot: Snapshot) -> _Files:
        try:
            files: _Files = json.loads(self._get_path(snapshot.tree).read_bytes())
        except (OSError, ValueError) as error:
            raise GitError(
                f"The checksum snapshot {snapshot.tree[:12]} no longer exists.",
                suggestion="Only snapshots that are still needed are stored; compare other ones.",
            ) from error
        return files

    def _read_files(self) -> tuple[_Files, list[ListedFile], list[str]]:
        deadline = time.monotonic() + _MAX_SECONDS
        now = time.time_ns()
        files: _Files = {}
        listed: list[ListedFile] = []
        unreadable: list[str] = []
        seen: _ChecksumCache = {}
        for path in _walk_files(self._root, "", self._own):
            if len(files) >= _MAX_FILES or time.monotonic() > deadline:
                raise GitError(
                    f"{self._root} has more files than can be compared without git.",
                    suggestion="Run `git init` there; with git, snapshots of any size are fast.",
                )
            try:
                status = os.lstat(f"{self._root}/{path}")
                if is_locked(status):  # the store itself
                    continue
                if status.st_size > LARGEST_UNTRACKED:
                    listed.append(ListedFile(path, status.st_size, status.st_mtime_ns))
                    continue
                checksum = self._compute_checksum(path, status)
            except OSError:
                unreadable.append(path)
                continue
            files[path] = checksum
            if len(files) % _REPORT_EVERY == 0:
                current_call().report_progress(len(files), None, f"Read {len(files)} files")
            if now - status.st_mtime_ns > _MIN_TRUSTED_AGE_NS:  # newer: may change within the same timestamp
                seen[path] = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, checksum)
        self._cache = seen
        return files, sorted(listed, key=lambda each: each.path), sorted(unreadable)

    def _compute_checksum(self, path: str, status: os.stat_result) -> str:
        known = self._cache.get(path)
        if known and known[:3] == (status.st_mtime_ns, status.st_ctime_ns, status.st_size):
            return known[3]
        full = f"{self._root}/{path}"
        if stat.S_ISLNK(status.st_mode):
            return f"link {hashlib.sha256(os.fsencode(os.readlink(full))).hexdigest()}"  # noqa: PTH115
        kind = "program" if status.st_mode & stat.S_IXUSR else "file"
        with open(full, "rb") as file:  # noqa: PTH123 (creating a Path per file is slower than opening it)
            return f"{kind} {hashlib.file_digest(file, 'sha256').hexdigest()}"


def _walk_files(root: str, below: str, own: str) -> Iterator[str]:
    """Yield the relative path of every file and link; links are not followed."""
    with suppress(OSError), os.scandir(f"{root}/{below}".rstrip("/")) as entries:
        for entry in sorted(entries, key=lambda each: each.name):
            path = f"{below}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _IGNORED_FOLDERS and entry.path != own:
                    yield from _walk_files(root, f"{path}/", own)
            elif entry.is_file(follow_symlinks=False) or entry.is_symlink():
                yield path


def _find_renames(changes: tuple[FileChange, ...]) -> Iterator[Rename]:
    """Pair deleted and added files with the same content; similarity needs contents, which are not stored."""
    gone: dict[str, deque[str]] = {}
    for change in changes:
        if change.after is None and change.before is not None:
            gone.setdefault(change.before, deque()).append(change.path)
    for change in changes:
        if change.before is None and change.after in gone and gone[change.after]:
            yield Rename(gone[change.after].popleft(), change.path, 100)
