"""The files that checks depend on: which content they have, and whether somebody touched them."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from deepwork.checks.models import Check
from deepwork.checks.rules import InputFile, compute_inputs_digest, select_inputs
from deepwork.errors import NotAllowed
from deepwork.git.snapshot import SnapshotStore
from deepwork.git.snapshot_types import Snapshot, TreeFile

_SUBMODULE_MODE = "160000"
_CHUNK_BYTES = 2**20
_MAX_KNOWN = 200_000
_SETTLING_NS = 10**9
"""A file that changed later may change again without another time."""


@dataclass(frozen=True)
class Inputs:
    """The files that one check depends on, and their digest."""

    files: tuple[InputFile, ...]
    digest: str

    @cached_property
    def paths(self) -> tuple[str, ...]:
        return tuple(file.path for file in self.files)


@dataclass(frozen=True)
class TreeState:
    """All files of a working tree at one moment, with what identifies their content."""

    top: Path
    snapshot: Snapshot
    files: Mapping[str, TreeFile]
    unstored: frozenset[str]
    """Large untracked files and nested repositories, which a snapshot only lists."""
    converted: frozenset[str] = frozenset()
    """Files of which git stores other bytes, such as other line endings."""

    def read_inputs(self, check: Check, prefix: str) -> Inputs:
        """Return the inputs of a check; raises NotAllowed if one of them cannot be read."""
        paths = select_inputs(check, prefix, (*self.files, *self.unstored))
        if unreadable := select_inputs(check, prefix, self.snapshot.unreadable):
            raise NotAllowed(
                f"{unreadable[0][:200]!a} cannot be read, so check {check.name} would prove nothing.",
                suggestion="Make the file readable, or remove it, then call again.",
            )
        files = tuple(InputFile(path, self._get_version(path)) for path in paths)
        return Inputs(files, compute_inputs_digest(files))

    def map_versions(self) -> dict[str, str]:
        """Map each path to what identifies its content; reads the files that a snapshot only lists."""
        return {path: self._get_version(path) for path in (*self.files, *self.unstored)}

    def _get_version(self, path: str) -> str:
        if path in self.unstored:
            return f"content {hash_content(self.top / path)}"
        file = self.files[path]
        if file.mode == _SUBMODULE_MODE or path in self.converted:
            return f"{file.mode} {file.blob} {hash_content(self.top / path)}"
        return f"{file.mode} {file.blob}"


class TreeReader:
    """Reads the state of a working tree, without trusting timestamps that a program can set."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, _Stamp], str] = {}

    def read(self, store: SnapshotStore, top: Path) -> TreeState:
        """Take a snapshot and list its files."""
        snapshot = store.take()
        files = {file.path: file for file in store.list_files(snapshot.tree)}
        is_converting = store.may_convert(files)
        if is_converting:
            files = {file.path: file for file in store.list_files(snapshot.tree, sized=True)}
        stamps = _read_file_stamps(top, files)
        files.update(self._read_backdated(store, top, files, stamps))
        converted = {
            path for path, stamp in stamps.items() if is_converting and stamp.size != files[path].size
        }
        unstored = frozenset(each.path for each in snapshot.listed)
        return TreeState(top, snapshot, files, unstored, frozenset(converted))

    def _read_backdated(
        self, store: SnapshotStore, top: Path, files: Mapping[str, TreeFile], stamps: Mapping[str, _Stamp]
    ) -> dict[str, TreeFile]:
        """Read again the files whose time was set: git compares times only to the second."""
        places = {path: (f"{top}/{path}", stamp) for path, stamp in stamps.items() if stamp.is_backdated}
        new = [path for path, place in places.items() if place not in self._known]
        hashes = dict(zip(new, store.hash_files(new), strict=True)) if new else {}
        settled = time.time_ns() - _SETTLING_NS
        if len(self._known) > _MAX_KNOWN:
            self._known.clear()
        self._known |= {places[path]: hashes[path] for path in new if places[path][1].changed_ns < settled}
        return {
            path: files[path]._replace(blob=hashes.get(path) or self._known[place])
            for path, place in places.items()
        }


class _Stamp(NamedTuple):
    inode: int
    changed_ns: int
    modified_ns: int
    size: int

    @property
    def is_backdated(self) -> bool:
        """Whether a program set its time: writing sets both times to the same."""
        return self.changed_ns != self.modified_ns


def _read_file_stamps(top: Path, files: Mapping[str, TreeFile]) -> dict[str, _Stamp]:
    """Return the stamps of the regular files that exist."""
    found = {}
    for path, file in files.items():
        if not file.mode.startswith("100"):
            continue
        try:
            status = os.lstat(f"{top}/{path}")
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode):
            found[path] = _Stamp(status.st_ino, status.st_ctime_ns, status.st_mtime_ns, status.st_size)
    return found


def read_committed_inputs(store: SnapshotStore, commit: str, check: Check, prefix: str) -> Inputs:
    """Return the inputs that a check has in a commit."""
    files = {file.path: file for file in store.list_files(commit)}
    chosen = tuple(
        InputFile(path, f"{files[path].mode} {files[path].blob}")
        for path in select_inputs(check, prefix, files)
    )
    return Inputs(chosen, compute_inputs_digest(chosen))


def read_stamps(folder: Path, paths: Iterable[str]) -> dict[str, tuple[int, int] | None]:
    """Return inode and change time of each file: no program can set them back after it changed a file."""
    return {path: _read_stamp(f"{folder}/{path}") for path in paths}


def hash_content(path: Path) -> str:
    """Hash a file, or all files below a folder except git's own."""
    digest = sha256()
    for place in _list_below(path):
        digest.update(os.fsencode(os.path.relpath(place, path)) + b"\0")
        if place.is_symlink():
            digest.update(b"link\0" + os.fsencode(place.readlink()) + b"\0")
            continue
        is_executable = os.access(place, os.X_OK)
        digest.update(b"file\0%d\0%d\0" % (is_executable, place.stat().st_size))
        with place.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
    return digest.hexdigest()


def _list_below(path: Path) -> Iterator[Path]:
    if path.is_symlink() or not path.is_dir():
        if path.is_symlink() or path.is_file():
            yield path
        return
    for entry in sorted(path.iterdir()):
        if entry.name != ".git":
            yield from _list_below(entry)


def _read_stamp(path: str) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_ino, status.st_ctime_ns
