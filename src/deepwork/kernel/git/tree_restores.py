"""Puts a working tree back: its files, and for a tree of its own also the branch and the index.

No hook, filter or other program of the repository runs. Every step can be repeated after a crash.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from deepwork.kernel.errors import GitError, NotAllowed
from deepwork.kernel.git.command import Git, check_hash
from deepwork.kernel.git.exact_files import (
    commit_tree,
    list_commit_files,
    store_files,
    write_commit,
    write_files,
)
from deepwork.kernel.git.file_placing import Placing, place_files
from deepwork.kernel.git.private_index import open_private_index
from deepwork.kernel.git.refs import IDENTITY, resolve_commit
from deepwork.kernel.git.rescue import create_rescue_branch, rescue
from deepwork.kernel.git.snapshot import SnapshotStore
from deepwork.kernel.records import dataclass

KEPT_REFS = "refs/deepwork/rewinds/"
_UNFINISHED = {
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
}
_NO_MODE = "0"


@dataclass(frozen=True, slots=True)
class FileMove:
    """A file that gets another version; `now` and `then` are git's mode and blob, None without a file."""

    path: str
    now: str | None
    then: str | None
    source: str = ""
    """The tree of a snapshot that has the version `then`; empty if `TreeRestore.exact` has it."""


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """An entry of the index that gets another version, unless somebody changed it since."""

    path: str
    now: str | None
    then: str | None


@dataclass(frozen=True, slots=True)
class TreeRestore:
    """What changes in one working tree."""

    tree: str
    moves: tuple[FileMove, ...] = ()
    branch: str | None = None
    """The branch that moves too, in a tree that belongs to one task."""
    head_now: str | None = None
    head_then: str | None = None
    index_then: str | None = None
    """The tree or commit that the index gets, with the branch."""
    entries: tuple[IndexEntry, ...] = ()
    """The entries of the index that change, in a tree that others use."""
    exact: str | None = None
    """The commit that has the files as they were byte for byte, when a rewind is undone."""


class TreeRestorer:
    """Saves and restores one working tree."""

    def __init__(self, git: Git, snapshots: SnapshotStore) -> None:
        self._git, self._snapshots = git, snapshots

    def require_settled(self) -> None:
        """Raise if somebody is in the middle of a merge or the like: its state could not be put back."""
        for name, what in _UNFINISHED.items():
            if self._git.find_path(name).exists():
                raise NotAllowed(
                    f"{self._git.root} is in the middle of {what}.",
                    suggestion="Finish it, or end it with git (--abort), then call again.",
                    recoverable=True,
                )

    def rescue_work(self, name: str, *, with_commits: bool) -> str | None:
        """Save everything uncommitted on a rescue branch, and with `with_commits` the commits as well.

        Return the branch, None if there is nothing to save. A branch that has it all already is reused.
        """
        if branch := rescue(self._git, name):
            return branch
        head = resolve_commit(self._git, "HEAD")
        return create_rescue_branch(self._git, head, name) if with_commits and head else None

    def save(self, restore: TreeRestore, id: str) -> str:
        """Store the files that will change byte for byte, and the index; return the commit, which is kept."""
        with open_private_index(self._git) as index:
            staged = index.write_tree()
        head = resolve_commit(self._git, "HEAD")
        name = f"before rewind {id}"
        base = commit_tree(self._git, staged, [head] if head else [], f"The index {name}")
        files = store_files(self._git, [move.path for move in restore.moves])
        saved = write_commit(self._git, list(files.values()), [base], f"Changed files {name}")
        self._git.run("update-ref", get_kept_ref(id, restore.tree), saved, env=IDENTITY)
        return saved

    def apply(self, restore: TreeRestore, id: str, saved: str) -> list[str]:
        """Put the files, the branch and the index back; return the files that somebody changed meanwhile."""
        folder = self._open_folder(id)
        strange = self._place(restore, folder, saved)
        if restore.branch is not None:
            self._move_branch(restore.branch, str(restore.head_now), str(restore.head_then))
            self._git.run("read-tree", "--reset", check_hash(str(restore.index_then)))
        elif restore.entries:
            self._update_entries(restore.entries)
        self._git.run("update-index", "-q", "--refresh", ok_codes=(0, 1))
        shutil.rmtree(folder / "ready", ignore_errors=True)
        with suppress(OSError):
            (folder / "kept").rmdir()
        if not (folder / "kept").exists():
            shutil.rmtree(folder, ignore_errors=True)
        return strange

    def _open_folder(self, id: str) -> Path:
        """Create a folder in the tree that git ignores: renaming works only within a file system."""
        folder = get_working_folder(self._git.root, id)
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.is_symlink():
            raise GitError(f"{folder} is a link.")
        (folder / ".gitignore").write_text("*\n")
        shutil.rmtree(folder / "ready", ignore_errors=True)
        (folder / "ready").mkdir()
        return folder

    def _place(self, restore: TreeRestore, folder: Path, saved: str) -> list[str]:
        written = self._prepare_files(restore, folder / "ready")
        removed = [move.path for move in restore.moves if move.now is not None]
        placing = Placing(self._git.root, removed, written)
        return place_files(placing, list_commit_files(self._git, saved), folder / "kept")

    def _prepare_files(self, restore: TreeRestore, ready: Path) -> dict[str, Path]:
        """Write the new versions to a folder, by their source; a file has the same name as in the tree."""
        by_source: dict[str, list[str]] = {}
        for move in restore.moves:
            if move.then is not None:
                by_source.setdefault(move.source, []).append(move.path)
        written: dict[str, Path] = {}
        for number, (source, paths) in enumerate(sorted(by_source.items())):
            folder = ready / str(number)
            folder.mkdir()
            if source:
                self._snapshots.check_out_files(source, paths, folder)
            else:
                known = list_commit_files(self._git, str(restore.exact))
                write_files(self._git, [known[path] for path in paths], folder)
            written |= {path: folder / path for path in paths}
        return written

    def _move_branch(self, branch: str, old: str, new: str) -> None:
        ref = f"refs/heads/{branch}"
        current = resolve_commit(self._git, ref)
        if current == new:
            return
        if current != old:
            raise NotAllowed(
                f"The branch {branch!r} has moved meanwhile.",
                suggestion="Look at it again, then call again.",
                recoverable=True,
            )
        message = "deepwork rewind"
        self._git.run("update-ref", "-m", message, ref, check_hash(new), check_hash(old), env=IDENTITY)

    def _update_entries(self, entries: Sequence[IndexEntry]) -> None:
        current = self.read_entries([entry.path for entry in entries])
        lines = [
            _format_entry(entry, len(current.get(entry.path) or entry.then or ""))
            for entry in entries
            if current.get(entry.path) == entry.now and entry.then != entry.now
        ]
        if lines:
            self._git.run("update-index", "-z", "--index-info", input=b"".join(lines))

    def read_entries(self, paths: Sequence[str]) -> dict[str, str]:
        """Return mode and blob of these files in the index; those with conflicts are left out."""
        wanted = set(paths)
        output = os.fsdecode(self._git.run("ls-files", "-z", "--stage", "--full-name"))
        found: dict[str, str] = {}
        for entry in output.split("\0")[:-1]:
            about, _, path = entry.partition("\t")
            mode, blob, stage = about.split(" ")
            if path in wanted and stage == "0":
                found[path] = f"{mode} {blob}"
        return found


def get_working_folder(tree: Path, id: str) -> Path:
    """Return the folder in a tree that has what a rewind needs until it is done."""
    return tree / f".deepwork-{id}"


def get_kept_ref(id: str, tree: str) -> str:
    """Return the ref that keeps what a rewind changed in a tree."""
    return f"{KEPT_REFS}{id}/{Path(tree).name.strip('.') or 'tree'}"


def read_head_versions(git: Git, paths: Sequence[str]) -> Mapping[str, str]:
    """Return mode and blob of these files in the commit that HEAD has."""
    head = resolve_commit(git, "HEAD")
    if head is None:
        return {}
    wanted = set(paths)
    listed = list_commit_files(git, head)
    return {path: f"{file.mode} {file.blob}" for path, file in listed.items() if path in wanted}


def _format_entry(entry: IndexEntry, length: int) -> bytes:
    if entry.then is None:
        hash_length = max(length - len("100644 "), 40)
        about = f"{_NO_MODE} {'0' * hash_length}"
    else:
        about = entry.then
    return about.encode() + b"\t" + os.fsencode(entry.path) + b"\0"
