"""The files that checks depend on: which content they have, and whether somebody touched them.

An agent controls the index of the repository and the times of its files, so neither says what a file has.
Every file is hashed once by us. Later its inode and change time, which no program can set, tell whether that
still holds.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cache, cached_property
from hashlib import new as new_hash
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from deepwork.gates.checks.hidden_files import HiddenRules, list_hidden
from deepwork.gates.checks.models import (
    Check,
    InputFile,
    compute_inputs_digest,
    select_guarded,
    select_inputs,
)
from deepwork.kernel.errors import NotAllowed
from deepwork.kernel.files.lock import is_locked
from deepwork.kernel.git.snapshot import SnapshotStore
from deepwork.kernel.git.snapshot_types import LINK_MODE, SUBMODULE_MODE, Snapshot, TreeFile
from deepwork.kernel.records import dataclass

_SHA1_LENGTH = 40
_CHUNK_BYTES = 2**20
_SETTLING_NS = 10**9
"""A file that changed later than this may change again without another time."""


class Stamp(NamedTuple):
    """What changes with every change of a file."""

    inode: int
    changed_ns: int
    modified_ns: int
    size: int
    mode: int


@dataclass(frozen=True)
class Inputs:
    """The files that one check depends on, and their digest."""

    files: tuple[InputFile, ...]
    digest: str

    @cached_property
    def paths(self) -> tuple[str, ...]:
        return tuple(file.path for file in self.files)

    @cached_property
    def links(self) -> tuple[InputFile, ...]:
        return tuple(file for file in self.files if file.version.startswith(LINK_MODE))


@dataclass(frozen=True)
class TreeState:
    """All files of a working tree at one moment, with what identifies their content."""

    top: Path
    snapshot: Snapshot
    files: Mapping[str, TreeFile]
    contents: Mapping[str, str]
    """Files of which git stores other bytes, such as other line endings, with the hash of theirs."""
    unstored: frozenset[str]
    """Large untracked files, and those of nested repositories and submodules: no snapshot stores them."""
    submodules: tuple[str, ...] = ()
    hidden: Mapping[str, str] = field(default_factory=dict)
    """Files that git ignores and that count nevertheless, with what identifies their content."""
    _inputs: dict[tuple[Check, str], Inputs] = field(default_factory=dict, compare=False, repr=False)
    _guarded: dict[tuple[str, tuple[str, ...]], dict[str, str]] = field(
        default_factory=dict, compare=False, repr=False
    )
    """The guarded ones of `files`, for as long as these are the same."""

    def with_snapshot(self, snapshot: Snapshot) -> TreeState:
        """Return the same files with another snapshot of them."""
        unstored = _list_unstored(self.top, snapshot, self.submodules)
        if (unstored, snapshot.unreadable) == (self.unstored, self.snapshot.unreadable):
            return replace(self, snapshot=snapshot)
        return replace(self, snapshot=snapshot, unstored=unstored, _inputs={})

    def with_hidden(self, hidden: Mapping[str, str]) -> TreeState:
        """Return the same files, and these besides."""
        return self if hidden == self.hidden else replace(self, hidden=hidden, _inputs={})

    def read_inputs(self, check: Check, prefix: str) -> Inputs:
        """Return the inputs of a check; raises NotAllowed if one of them cannot be read."""
        known = self._inputs.get((check, prefix))
        if known is not None:
            return known
        hidden = () if check.clean else self.hidden  # a fresh tree has none of them
        paths = select_inputs(check, prefix, (*self.files, *self.unstored, *hidden))
        if unreadable := select_inputs(check, prefix, self.snapshot.unreadable):
            raise NotAllowed(
                f"{unreadable[0][:200]!a} cannot be read, so check {check.name} would prove nothing.",
                suggestion="Make the file readable, or remove it, then call again.",
            )
        files = tuple(InputFile(path, self.get_version(path)) for path in paths)
        inputs = Inputs(files, compute_inputs_digest(files))
        if not self._is_unstored(paths):
            self._inputs[check, prefix] = inputs
        return inputs

    def __contains__(self, path: object) -> bool:
        """Return whether the snapshot has the file, or lists it."""
        return path in self.files or path in self.unstored

    def map_guarded(self, prefix: str, guarded: tuple[str, ...]) -> dict[str, str]:
        """Map the paths of guarded files to what identifies their content, as git stores it where it does."""
        key = prefix, guarded
        if key not in self._guarded:
            stored = self.files
            self._guarded[key] = {
                path: f"{stored[path].mode} {stored[path].blob}"
                for path in select_guarded(guarded, prefix, stored)
            }
        others = select_guarded(guarded, prefix, (*self.unstored, *(self.hidden.keys() - self.files.keys())))
        return self._guarded[key] | {path: self.get_version(path) for path in others}

    def get_version(self, path: str) -> str:
        """Return what identifies the content of a file; reads it if a snapshot only lists it."""
        if path in self.hidden:
            return self.hidden[path]
        if path in self.unstored:
            return f"content {hash_content(self.top / path)}"
        file = self.files[path]
        if file.mode == SUBMODULE_MODE:  # git compares only its commit
            return f"{file.mode} {file.blob} {hash_content(self.top / path)}"
        content = self.contents.get(path)
        return f"{file.mode} {file.blob}" if content is None else f"{file.mode} {file.blob} {content}"

    def _is_unstored(self, paths: Iterable[str]) -> bool:
        return any(
            path in self.unstored or (path in self.files and self.files[path].mode == SUBMODULE_MODE)
            for path in paths
        )


@dataclass(frozen=True)
class _SeenTree:
    """What was found in a tree the last time."""

    state: TreeState
    stamps: Mapping[str, Stamp]
    read_at_ns: int

    @cached_property
    def _is_settled(self) -> bool:
        newest = max((stamp.changed_ns for stamp in self.stamps.values()), default=0)
        return newest < self.read_at_ns - _SETTLING_NS

    def is_current(self, top: Path) -> bool:
        """Return whether no file changed since; any change of a file changes its change time."""
        start, lstat = f"{top}/", os.lstat
        if not self._is_settled or len(self.stamps) != len(self.state.files):
            return False
        try:
            for path, stamp in self.stamps.items():
                status = lstat(start + path)
                if status.st_ctime_ns != stamp.changed_ns or status.st_ino != stamp.inode:
                    return False
        except OSError:
            return False
        return True


class TreeReader:
    """Reads the states of working trees; remembers the last one of each."""

    def __init__(self) -> None:
        self._known: dict[Path, _SeenTree] = {}
        self._hashes: dict[Path, dict[str, tuple[Stamp, str]]] = {}
        self._hidden_hashes: dict[Path, dict[str, tuple[Stamp, str]]] = {}

    def read(self, store: SnapshotStore, top: Path, rules: HiddenRules) -> TreeState:
        """Take a snapshot, compare it with the files themselves, and add those that must not be hidden."""
        state = self._read_visible(store, top)
        state = state.with_hidden(self._read_hidden(store, top, list_hidden(store, rules, state)))
        self._known[top] = replace(self._known[top], state=state)
        return state

    def _read_visible(self, store: SnapshotStore, top: Path) -> TreeState:
        last = self._known.get(top)
        began = time.time_ns()

        @cache
        def is_unchanged(tree: str) -> bool:
            return last is not None and last.state.snapshot.tree == tree and last.is_current(top)

        snapshot = store.take(is_unchanged)
        if last and is_unchanged(snapshot.tree):
            return last.state.with_snapshot(snapshot)
        return self._read_files(store, top, snapshot, began)

    def _read_files(self, store: SnapshotStore, top: Path, snapshot: Snapshot, began: int) -> TreeState:
        files = {file.path: file for file in store.list_exactly(snapshot.tree)}
        stamps = read_stamps(top, files)
        contents = self._hash(store, stamps, self._hashes.setdefault(top, {}))
        contents = {path: content for path, content in contents.items() if content != files[path].blob}
        if wrong := _find_wrong(store, top, files, stamps, contents):
            snapshot = store.read_again(snapshot, wrong)
            files = {file.path: file for file in store.list_exactly(snapshot.tree)}
        odd = {path: content for path, content in contents.items() if _get_blob(files, path) != content}
        _require_own_rules(store, [files[path] for path in odd if path in files], files.values())
        files = {path: _correct_mode(file, stamps.get(path)) for path, file in files.items()}
        submodules = tuple(path for path, file in files.items() if file.mode == SUBMODULE_MODE)
        state = TreeState(
            top, snapshot, files, odd, _list_unstored(top, snapshot, submodules), submodules=submodules
        )
        self._known[top] = _SeenTree(state, stamps, began)
        return state

    def _read_hidden(self, store: SnapshotStore, top: Path, paths: Iterable[str]) -> dict[str, str]:
        own = [path for path in paths if not is_own_store(top / path)]
        stamps = read_stamps(top, own)
        hashes = self._hash(store, stamps, self._hidden_hashes.setdefault(top, {}))
        links = {
            path: f"link {(top / path).readlink()}"
            for path, stamp in stamps.items()
            if stat.S_ISLNK(stamp.mode)
        }
        return links | {path: f"{_find_mode(stamps[path])} {hash}" for path, hash in hashes.items()}

    def _hash(
        self, store: SnapshotStore, stamps: Mapping[str, Stamp], known: dict[str, tuple[Stamp, str]]
    ) -> dict[str, str]:
        """Return the hash of the content of every regular file; reads those that changed since."""
        regular = {path: stamp for path, stamp in stamps.items() if stat.S_ISREG(stamp.mode)}
        found = {
            path: known[path][1]
            for path, stamp in regular.items()
            if path in known and known[path][0] == stamp
        }
        settled = time.time_ns() - _SETTLING_NS
        new = [path for path in regular if path not in found]
        found.update(zip(new, store.hash_files(new, raw=True), strict=True))
        known.clear()
        known.update(
            (path, (regular[path], hash))
            for path, hash in found.items()
            if regular[path].changed_ns < settled
        )
        return found


def is_own_store(path: Path) -> bool:
    """Return whether this is the store itself, which changes with every call."""
    try:
        return is_locked(path.lstat())
    except OSError:
        return False


def _list_unstored(top: Path, snapshot: Snapshot, submodules: Iterable[str]) -> frozenset[str]:
    """List the files that the snapshot lists only, or of which it has only the folder."""
    places = [*submodules, *(each.path for each in snapshot.listed)]
    return frozenset(os.path.relpath(place, top) for path in places for place in _list_below(top / path))


def _find_wrong(
    store: SnapshotStore,
    top: Path,
    files: Mapping[str, TreeFile],
    stamps: Mapping[str, Stamp],
    contents: Mapping[str, str],
) -> list[str]:
    """List the files that the snapshot does not have as they are."""
    converted = [path for path in contents if files[path].mode.startswith("100")]
    stored = dict(zip(converted, store.hash_files(converted, raw=False), strict=True))
    wrong = [path for path in contents if stored.get(path) != files[path].blob]
    for path, file in files.items():
        if file.mode == SUBMODULE_MODE or path in stored:
            continue
        stamp = stamps.get(path)
        is_link = stamp is not None and stat.S_ISLNK(stamp.mode)
        if stamp is None or is_link != (file.mode == LINK_MODE) or (is_link and _has_moved(top, file)):
            wrong.append(path)
    return wrong


def _require_own_rules(store: SnapshotStore, files: Sequence[TreeFile], tree: Iterable[TreeFile]) -> None:
    """Raise NotAllowed for a file whose content no commit of the tree gives back."""
    regular = [file for file in files if file.mode not in (SUBMODULE_MODE, LINK_MODE)]
    if wrong := store.find_misconverted(regular, tree) if regular else []:
        raise NotAllowed(
            f"Git would store {min(wrong)[:200]!a} otherwise than it is, by attributes that are not part of"
            " the tree, so checks would prove nothing.",
            suggestion="Remove the rule from .git/info/attributes and core.attributesFile, or commit it in a"
            " .gitattributes, then call again.",
        )


def _has_moved(top: Path, link: TreeFile) -> bool:
    """Return whether a link leads elsewhere than the snapshot says."""
    target = os.fsencode((top / link.path).readlink())
    algorithm = "sha1" if len(link.blob) == _SHA1_LENGTH else "sha256"
    return new_hash(algorithm, b"blob %d\0%b" % (len(target), target)).hexdigest() != link.blob


def _get_blob(files: Mapping[str, TreeFile], path: str) -> str | None:
    return files[path].blob if path in files else None


def _correct_mode(file: TreeFile, stamp: Stamp | None) -> TreeFile:
    """Return the file with its own mode: a repository can make git ignore that."""
    if stamp is None or not file.mode.startswith("100"):
        return file
    mode = _find_mode(stamp)
    return file if file.mode == mode else file._replace(mode=mode)


def _find_mode(stamp: Stamp) -> str:
    return "100755" if stamp.mode & stat.S_IXUSR else "100644"


def select_committed_inputs(versions: Mapping[str, str], check: Check, prefix: str) -> Inputs:
    """Return the inputs that a check has among the files of a commit or tree."""
    chosen = tuple(InputFile(path, versions[path]) for path in select_inputs(check, prefix, versions))
    return Inputs(chosen, compute_inputs_digest(chosen))


def read_stamps(folder: Path, paths: Iterable[str]) -> dict[str, Stamp]:
    """Return the stamps of the files that exist."""
    start, lstat, found = f"{folder}/", os.lstat, {}
    for path in paths:
        try:
            status = lstat(start + path)
        except OSError:
            continue
        found[path] = Stamp(
            status.st_ino, status.st_ctime_ns, status.st_mtime_ns, status.st_size, status.st_mode
        )
    return found


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
        if path.is_symlink() or (path.is_file() and not is_locked(path.lstat())):
            yield path
        return
    for entry in sorted(path.iterdir()):
        if entry.name != ".git":
            yield from _list_below(entry)
