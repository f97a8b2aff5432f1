"""How a project's files stand at a moment, kept so that any two moments can be compared later.

In a repository a snapshot is a tree of git's, new files included; elsewhere it is a list of checksums.
"""

from __future__ import annotations

from pathlib import Path

from deepwork.errors import NotAllowed
from deepwork.git.checksums import ChecksumSnapshots
from deepwork.git.command import Git
from deepwork.git.moments import Difference, FileChange, Patch, Progress, Snapshot, SnapshotKind
from deepwork.git.private_index import top_of
from deepwork.git.tree_snapshots import TreeSnapshots

__all__ = ["Snapshots"]


class Snapshots:
    """The snapshots of one project; what they need is kept in `folder` and nowhere else.

    Git itself is asked to look at the files, with an index and a store of objects in that folder: the user's
    index, objects, branches and files stay as they are, and no program that the repository names is run.
    """

    def __init__(self, git: Git, folder: Path) -> None:
        self._git = git
        self._folder = folder
        self._checksums = ChecksumSnapshots(git.root, folder)
        self._trees: TreeSnapshots | None = None

    def take(self) -> Snapshot:
        """The files as they are now: those that git would keep, be they known to it or new."""
        trees = self._in_repository()
        return self._checksums.take() if trees is None else trees.take()

    def diff(self, before: Snapshot, after: Snapshot, *, counted: bool = False) -> Difference:
        """What is different between two snapshots of this project; `counted` tells lines as well."""
        if before.kind is not after.kind:
            raise NotAllowed(
                f"A snapshot of kind {before.kind} cannot be compared with one of kind {after.kind}.",
                suggestion="The project became a repository, or ceased to be one: begin anew from here.",
            )
        if before.kind is SnapshotKind.CHECKSUM:
            return self._checksums.diff(before, after)
        return self._needed().diff(before, after, counted=counted)

    def patch(
        self, before: Snapshot, after: Snapshot, path: str, *, max_bytes: int = 64 * 1024
    ) -> Patch | None:
        """How one file was changed, as a patch of at most so many bytes; None where no content is kept."""
        if SnapshotKind.CHECKSUM in (before.kind, after.kind):
            return None
        return self._needed().patch(before, after, path, max_bytes)

    def progress(self, before: Snapshot, after: Snapshot) -> Progress:
        """The commits made between two snapshots, and whether HEAD went elsewhere instead of on."""
        if SnapshotKind.CHECKSUM in (before.kind, after.kind):
            return Progress()
        return self._needed().progress(before, after)

    def uncommitted(self, snapshot: Snapshot) -> tuple[FileChange, ...]:
        """What was different from HEAD at the moment of the snapshot."""
        if snapshot.kind is SnapshotKind.CHECKSUM:
            return ()
        return self._needed().uncommitted(snapshot)

    def prune(self, keep: set[str]) -> int:
        """Throw away all that only other snapshots need than those with these trees; tells how many files."""
        removed = self._checksums.prune(keep)
        trees = self._in_repository()
        return removed if trees is None else removed + trees.prune(keep)

    def _needed(self) -> TreeSnapshots:
        trees = self._in_repository()
        if trees is None:
            raise NotAllowed(
                f"{self._git.root} is no repository any more: its snapshots cannot be read.",
                suggestion="Bring its .git back, or begin anew from here.",
            )
        return trees

    def _in_repository(self) -> TreeSnapshots | None:
        nearest = _nearest_repository(self._git.root)
        if nearest is None:  # a bare one has no files of a project either
            self._trees = None
        elif self._trees is None or self._trees.top != nearest:
            self._trees = self._find()
        return self._trees

    def _find(self) -> TreeSnapshots | None:
        if not self._git.is_installed() or not self._git.is_repository():
            return None
        if self._git.run("rev-parse", "--is-inside-work-tree").strip() != b"true":
            return None
        return TreeSnapshots(self._git, top_of(self._git), self._folder)


def _nearest_repository(root: Path) -> Path | None:
    return next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), None)
