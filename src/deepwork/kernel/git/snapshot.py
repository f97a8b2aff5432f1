"""Stores snapshots of a project's files so that any two can be compared later.

In a repository a snapshot is a git tree that includes untracked files; elsewhere it is a list of checksums.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from deepwork.kernel.config import STATE_FOLDER
from deepwork.kernel.errors import NotAllowed
from deepwork.kernel.files.private import find_stamp, make_state_folder
from deepwork.kernel.files.repositories import find_tree_root
from deepwork.kernel.git.checksums import ChecksumSnapshotStore
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.empty_repository import filter_ignored
from deepwork.kernel.git.history import HeadProgress
from deepwork.kernel.git.snapshot_types import (
    FileChange,
    Patch,
    Snapshot,
    SnapshotDiff,
    SnapshotKind,
    TreeFile,
)
from deepwork.kernel.git.tree_snapshots import IsUnchanged, TreeSnapshotStore
from deepwork.kernel.user_settings import build_git_environment


def open_snapshot_store(repository: Path, tree: Path) -> SnapshotStore:
    """Open the store of a tree's snapshots, which is with the repository: they outlive the tree."""
    state = repository / STATE_FOLDER
    make_state_folder(state)
    folder = state / "snapshots" / sha256(str(tree).encode()).hexdigest()[:16]
    root = tree if tree.is_dir() else repository
    return SnapshotStore(Git(root, environment=build_git_environment(root)), folder)


class SnapshotStore:
    """Takes and compares snapshots of one project; stores everything in `folder`.

    Git reads the files with an index and an object store in that folder: the user's index, objects, branches
    and files stay unchanged, and no program named by the repository runs.
    """

    def __init__(self, git: Git, folder: Path) -> None:
        self.git = git
        self._folder = folder
        self._trees: TreeSnapshotStore | None = None

    @cached_property
    def _checksums(self) -> ChecksumSnapshotStore:
        return ChecksumSnapshotStore(self.git.root, self._folder)

    def take(self, is_unchanged: IsUnchanged | None = None) -> Snapshot:
        """Take a snapshot of all tracked and untracked files that are not ignored.

        Who compares the files of the last snapshot anyway passes `is_unchanged`, so that git need not.
        """
        trees = self._find_trees()
        return self._checksums.take() if trees is None else trees.take(is_unchanged)

    def take_new(self) -> Snapshot:
        """Return the snapshot of a tree that git has just made: its files are those of its commit."""
        return self._require_trees().take_new()

    def diff(self, before: Snapshot, after: Snapshot, *, counted: bool = False) -> SnapshotDiff:
        """Compare two snapshots of this project; with `counted`, include line counts."""
        if before.kind is not after.kind:
            raise NotAllowed(
                f"A snapshot of kind {before.kind} cannot be compared with one of kind {after.kind}.",
                suggestion="The project became or stopped being a repository; start over from here.",
            )
        if before.kind is SnapshotKind.CHECKSUM:
            return self._checksums.diff(before, after)
        return self._require_trees().diff(before, after, counted=counted)

    def get_patch(
        self, before: Snapshot, after: Snapshot, *paths: str, max_bytes: int = 64 * 1024
    ) -> Patch | None:
        """Return the patch of these files, or of all, cut to `max_bytes`; None if contents are not stored."""
        if SnapshotKind.CHECKSUM in (before.kind, after.kind):
            return None
        return self._require_trees().get_patch(before, after, paths, max_bytes)

    def get_progress(self, before: Snapshot, after: Snapshot) -> HeadProgress:
        """Return the commits made between two snapshots, and whether HEAD was switched or rewritten."""
        if SnapshotKind.CHECKSUM in (before.kind, after.kind):
            return HeadProgress()
        return self._require_trees().get_progress(before, after)

    def run_with_objects(self, *args: str, input: bytes | None = None) -> bytes:
        """Run git with the objects of the snapshots beside those of the repository."""
        return self._require_trees().run(*args, input=input)

    def list_exactly(self, name: str) -> list[TreeFile]:
        """List the files of a tree or commit; raises GitError if its hash does not stand for them."""
        return self._require_trees().list_exactly(name)

    def list_files(self, tree: str) -> list[TreeFile]:
        """List the files of a stored tree, or of a commit of the repository."""
        return self._require_trees().list_files(tree)

    def read_blob(self, blob: str, max_bytes: int) -> bytes | None:
        """Read the content of a stored file; None if it is longer, or has another hash."""
        return self._require_trees().read_blob(blob, max_bytes)

    def hash_files(self, paths: Sequence[str], *, raw: bool) -> list[str]:
        """Hash the content of these files now; `raw`: as it is, without the conversions of git."""
        return self._require_trees().hash_files(paths, raw=raw)

    def has_own_excludes(self) -> bool:
        """Return whether rules outside the tree may hide files: `info/exclude` or the user's ignore file."""
        return self._require_trees().has_own_excludes()

    def list_left_out(
        self, excludes: Sequence[str], paths: Sequence[str] = (), *, by_tree: bool = False
    ) -> list[str]:
        """List the files that the last snapshot left out, except those that these rules hide.

        `by_tree`: the `.gitignore` files of the tree hide files, too.
        """
        return self._require_trees().list_left_out(excludes, paths, by_tree=by_tree)

    def filter_ignored(
        self, paths: Collection[str], excludes: Sequence[str], *, by_tree: bool = False
    ) -> set[str]:
        """Return the paths that these rules ignore; with `by_tree`, also those of the tree's `.gitignore`."""
        return filter_ignored(self.git, paths, excludes, self._require_trees().top if by_tree else None)

    def read_again(self, snapshot: Snapshot, paths: Sequence[str]) -> Snapshot:
        """Return the snapshot with these files as they are, whatever an index said about them."""
        return self._require_trees().read_again(snapshot, paths)

    def check_out(self, tree: str, folder: Path) -> None:
        """Write the files of a stored tree, or of a commit of the repository, to an empty folder."""
        self._require_trees().check_out(tree, folder)

    def find_wrong_checkout(self, files: Sequence[TreeFile], folder: Path) -> list[str]:
        """List those of these files that a folder does not have as `check_out` writes them."""
        return self._require_trees().find_wrong_checkout(files, folder)

    def find_misconverted(self, files: Sequence[TreeFile], tree: Iterable[TreeFile]) -> list[str]:
        """List those of these files that git stores otherwise than the attributes of their tree say."""
        return self._require_trees().find_misconverted(files, tree)

    def list_untracked_folders(
        self, excludes: Sequence[str], paths: Sequence[str] = (), *, by_tree: bool = False
    ) -> list[str]:
        """List the folders without files of the last snapshot, except those that these rules hide.

        `by_tree`: the `.gitignore` files of the tree hide folders, too.
        """
        return self._require_trees().list_untracked_folders(excludes, paths, by_tree=by_tree)

    def check_out_files(self, tree: str, paths: Sequence[str], folder: Path) -> None:
        """Write some files of a stored tree to an empty folder."""
        self._require_trees().check_out_files(tree, paths, folder)

    def has_tree(self, tree: str) -> bool:
        """Return whether the tree is still stored; those of tasks that ended long ago are deleted."""
        return self._require_trees().has_tree(tree)

    def list_uncommitted(self, snapshot: Snapshot) -> tuple[FileChange, ...]:
        """List the files that differed from HEAD when the snapshot was taken."""
        if snapshot.kind is SnapshotKind.CHECKSUM:
            return ()
        return self._require_trees().list_uncommitted(snapshot)

    def began_at(self) -> int:
        """Return when the first snapshot was taken here, in Unix nanoseconds; 0 if that is not known."""
        stamp = find_stamp(f"{self._folder}/.gitignore")
        return stamp[0] if stamp else 0

    def prune(self, keep: set[str]) -> int:
        """Delete data that no snapshot with one of these trees needs; return the number of files removed."""
        removed = self._checksums.prune(keep)
        trees = self._find_trees()
        return removed if trees is None else removed + trees.prune(keep)

    def _require_trees(self) -> TreeSnapshotStore:
        trees = self._find_trees()
        if trees is None:
            raise NotAllowed(
                f"{self.git.root} is no longer a git repository, so its snapshots cannot be read.",
                suggestion="Restore its .git, or start over from here.",
            )
        return trees

    def _find_trees(self) -> TreeSnapshotStore | None:
        nearest = find_tree_root(self.git.root)
        if nearest is None:  # a bare repository has no project files either
            self._trees = None
        elif self._trees is None or self._trees.top != nearest:
            self._trees = self._open_trees(nearest)
        return self._trees

    def _open_trees(self, top: Path) -> TreeSnapshotStore | None:
        if not self.git.is_installed() or not self.git.is_repository():
            return None
        return TreeSnapshotStore(self.git, top, self._folder)
