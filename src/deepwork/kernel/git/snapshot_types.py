"""What snapshots and their differences consist of."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any, NamedTuple

from deepwork.kernel.records import dataclass

LARGEST_UNTRACKED = 5 * 2**20
"""Untracked files above this size are listed without their content."""
SUBMODULE_MODE, LINK_MODE = "160000", "120000"
"""Git's modes of what is not a regular file."""


class SnapshotKind(StrEnum):
    """How a snapshot was taken."""

    GIT = "git"
    CHECKSUM = "checksum"


class ChangeStatus(StrEnum):
    """How a file changed."""

    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file recorded by size and time only, or a nested repository."""

    path: str
    size: int
    modified_ns: int

    @property
    def version(self) -> str:
        """A string that changes when the file changes."""
        return f"listed {self.size} {self.modified_ns}"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files of a project at a moment; `tree` identifies their stored content, `head` the commit."""

    kind: SnapshotKind
    tree: str
    head: str | None = None
    branch: str | None = None
    listed: tuple[ListedFile, ...] = ()
    unreadable: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Convert to a JSON object; omits empty lists, since one is stored for each task."""
        kept = {"kind": self.kind.value, "tree": self.tree, "head": self.head, "branch": self.branch}
        listed = [[each.path, each.size, each.modified_ns] for each in self.listed]
        more = {"listed": listed, "unreadable": list(self.unreadable)}
        return kept | {name: value for name, value in more.items() if value}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Snapshot:
        """Create a snapshot from the output of `to_dict`."""
        return cls(
            SnapshotKind(stored["kind"]),
            stored["tree"],
            stored["head"],
            stored["branch"],
            tuple(ListedFile(*each) for each in stored.get("listed", ())),
            tuple(stored.get("unreadable", ())),
        )


class TreeFile(NamedTuple):
    """A file in a stored tree, with git's mode of it; a submodule is one entry, with its commit."""

    mode: str
    blob: str
    path: str


@dataclass(frozen=True, slots=True)
class FileChange:
    """A changed file; `before` and `after` identify its versions, None where the file does not exist."""

    path: str
    before: str | None
    after: str | None
    added: int | None = None
    removed: int | None = None
    is_binary: bool = False

    @property
    def status(self) -> ChangeStatus:
        """Added, modified or deleted."""
        if self.before is None:
            return ChangeStatus.ADDED
        return ChangeStatus.DELETED if self.after is None else ChangeStatus.MODIFIED


@dataclass(frozen=True, slots=True)
class Rename:
    """A file that moved from one path to another, with its similarity in percent."""

    source: str
    target: str
    similarity: int


@dataclass(frozen=True, slots=True)
class SnapshotDiff:
    """The differences between two snapshots, by path; a rename is a deletion, an addition and a pair."""

    files: tuple[FileChange, ...] = ()
    renamed: tuple[Rename, ...] = ()


@dataclass(frozen=True, slots=True)
class Patch:
    """The text of a change."""

    text: str
    is_binary: bool = False
    is_truncated: bool = False


def add_listed_changes(before: Snapshot, after: Snapshot, found: SnapshotDiff) -> SnapshotDiff:
    """Add listed files to a diff: a file may be stored in one snapshot and only listed in the other."""
    old = {each.path: each.version for each in before.listed}
    new = {each.path: each.version for each in after.listed}
    changes = {change.path: change for change in found.files}
    listed = old.keys() | new.keys()
    for path in listed:
        kept = changes.get(path)
        was = old.get(path) or (kept.before if kept else None)
        now = new.get(path) or (kept.after if kept else None)
        if was != now:
            changes[path] = FileChange(path, was, now)
    unpaired = tuple(pair for pair in found.renamed if listed.isdisjoint((pair.source, pair.target)))
    return SnapshotDiff(tuple(changes[path] for path in sorted(changes)), unpaired)


_Counts = dict[str, tuple[int | None, int | None]]


def parse_raw_diff(output: bytes) -> SnapshotDiff:
    """Parse all changes by path; a rename becomes a deletion, an addition and a pair."""
    words = iter(os.fsdecode(output).split("\0")[:-1])
    changes: dict[str, FileChange] = {}
    renamed: list[Rename] = []
    counts: _Counts = {}
    for word in words:
        if word.startswith(":"):
            _parse_change(word, words, changes, renamed)
        else:
            _parse_counts(word, words, counts)
    files = (_add_counts(changes[path], counts) for path in sorted(changes))
    return SnapshotDiff(tuple(files), tuple(sorted(renamed, key=lambda pair: pair.target)))


def _parse_change(
    header: str, words: Iterator[str], changes: dict[str, FileChange], renamed: list[Rename]
) -> None:
    old_mode, new_mode, old_hash, new_hash, status = header[1:].split(" ")
    before = f"{old_mode} {old_hash}" if old_mode.strip("0") else None
    after = f"{new_mode} {new_hash}" if new_mode.strip("0") else None
    path = next(words)
    if status[0] != "R":
        changes[path] = FileChange(path, before, after)
        return
    target = next(words)
    changes[path] = FileChange(path, before, None)
    changes[target] = FileChange(target, None, after)
    renamed.append(Rename(path, target, int(status[1:])))


def _parse_counts(word: str, words: Iterator[str], counts: _Counts) -> None:
    added, removed, path = word.split("\t", 2)
    if not path:  # a rename: from and to follow
        next(words)
        path = next(words)
    counts[path] = (None, None) if added == "-" else (int(added), int(removed))


def _add_counts(change: FileChange, counts: _Counts) -> FileChange:
    if change.path not in counts:
        return change
    added, removed = counts[change.path]
    return replace(change, added=added, removed=removed, is_binary=added is None)
