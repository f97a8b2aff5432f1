"""Data types of snapshots and of the differences between two of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from deepwork.kernel.git.history import HistoryCommit

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


@dataclass(frozen=True, slots=True)
class HeadProgress:
    """How HEAD moved between two snapshots.

    `is_switched`: it is on another branch. `is_rewritten`: its earlier commit is no longer in its history
    (a switch, a rebase, a reset), so some of the commits may be older than the first snapshot.
    """

    commits: tuple[HistoryCommit, ...] = ()
    """The oldest first."""
    is_switched: bool = False
    is_rewritten: bool = False


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
