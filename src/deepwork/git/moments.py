"""What a snapshot is, and what can be told of two of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

LARGEST_UNTRACKED = 5 * 2**20
"""Files that git does not know are listed, but not kept, above this size."""


class SnapshotKind(StrEnum):
    """What a snapshot was made by."""

    GIT = "git"
    CHECKSUM = "checksum"


class ChangeStatus(StrEnum):
    """What became of a file."""

    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Listed:
    """A file that is known by its size and time only, or a repository among the files."""

    path: str
    size: int
    modified_ns: int

    @property
    def version(self) -> str:
        """What differs when the file does."""
        return f"listed {self.size} {self.modified_ns}"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files of a project at a moment; `tree` names what is kept of them, `head` the commit below."""

    kind: SnapshotKind
    tree: str
    head: str | None = None
    branch: str | None = None
    listed: tuple[Listed, ...] = ()
    unreadable: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """In a form that can be stored as JSON; short, since there is one for each task."""
        kept = {"kind": self.kind.value, "tree": self.tree, "head": self.head, "branch": self.branch}
        listed = [[each.path, each.size, each.modified_ns] for each in self.listed]
        more = {"listed": listed, "unreadable": list(self.unreadable)}
        return kept | {name: value for name, value in more.items() if value}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Snapshot:
        """What `as_dict` made, read again."""
        return cls(
            SnapshotKind(stored["kind"]),
            stored["tree"],
            stored["head"],
            stored["branch"],
            tuple(Listed(*each) for each in stored.get("listed", ())),
            tuple(stored.get("unreadable", ())),
        )


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file that is not as it was; `before` and `after` name its versions, None where there is no file."""

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
    """A file that went from one path to another, and how much of it (in percent) stayed the same."""

    source: str
    target: str
    similarity: int


@dataclass(frozen=True, slots=True)
class Difference:
    """All that differs between two snapshots, by path; a rename is a deletion, an addition and a pair."""

    files: tuple[FileChange, ...] = ()
    renamed: tuple[Rename, ...] = ()

    def paths(self, status: ChangeStatus) -> list[str]:
        """The paths to which this happened."""
        return [file.path for file in self.files if file.status is status]


@dataclass(frozen=True, slots=True)
class Patch:
    """The text of a change."""

    text: str
    is_binary: bool = False
    is_truncated: bool = False


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit by its hash and the first line of its message."""

    hash: str
    subject: str


@dataclass(frozen=True, slots=True)
class Progress:
    """What became of HEAD.

    `is_switched`: it is on another branch. `is_rewritten`: the commit it was at is not in its history any
    more (a switch, a rebase, a reset), so some of the commits may be older than the first snapshot.
    """

    commits: tuple[Commit, ...] = field(default=())
    is_switched: bool = False
    is_rewritten: bool = False


def listed_changes(before: Snapshot, after: Snapshot, found: Difference) -> Difference:
    """The difference with what is only listed: a file may be kept in one snapshot and listed in the other."""
    old = {each.path: each.version for each in before.listed}
    new = {each.path: each.version for each in after.listed}
    changes = {change.path: change for change in found.files}
    for path in old.keys() | new.keys():
        kept = changes.get(path)
        was = old.get(path) or (kept.before if kept else None)
        now = new.get(path) or (kept.after if kept else None)
        if was != now:
            changes[path] = FileChange(path, was, now)
    unpaired = tuple(
        pair for pair in found.renamed if not {pair.source, pair.target} & (old.keys() | new.keys())
    )
    return Difference(tuple(changes[path] for path in sorted(changes)), unpaired)
