"""Notices what happens to the files of a tree while a check runs in it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path

from deepwork.gates.checks.hidden_files import CACHES
from deepwork.gates.checks.input_files import is_own_store
from deepwork.gates.checks.models import Check, find_unexpected, name_paths, select_guarded
from deepwork.kernel.files.watching import CannotWatch, FolderEvents, FolderWatch, list_pipes
from deepwork.kernel.git.snapshot import SnapshotStore
from deepwork.kernel.records import dataclass


@dataclass
class WatchedFolders:
    """What happened in the folders of a tree while a check ran, or why that is not known."""

    events: FolderEvents = field(default_factory=FolderEvents)
    problem: str | None = None


@contextmanager
def watch_folders(top: Path, folders: Iterable[str]) -> Iterator[WatchedFolders]:
    watched = WatchedFolders()
    try:
        with FolderWatch(top, folders) as watch:
            watched.events = watch.events
            yield watched
    except CannotWatch as error:
        watched.problem = f"the folders cannot be watched ({error}; see fs.inotify.max_user_watches)."
        yield watched
    if not watched.events.is_complete:
        watched.problem = "too many of them did."


@dataclass(frozen=True)
class UnexpectedPaths:
    """Paths that appeared or disappeared: inputs and their folders, and those that would be inputs."""

    known: set[str]
    unknown: dict[str, str]
    """What git is asked about, and the path that it stands for."""

    def list_without(self, ignored: set[str]) -> list[str]:
        return [*self.known, *(path for asked, path in self.unknown.items() if asked not in ignored)]


def find_unexpected_paths(
    check: Check, prefix: str, inputs: Collection[str], events: FolderEvents, top: Path
) -> UnexpectedPaths:
    """Find what appeared or disappeared below a folder that has these inputs of a check."""
    ours = {*inputs, *list_parents(inputs)}
    happened = events.added_files | events.added_folders | events.removed
    files = find_unexpected(check, prefix, events.added_files - ours - {".git"})
    files = {path for path in files if not is_own_store(top / path)}
    gone = {path for path in events.added_folders - ours if not os.path.lexists(top / path)}
    gone = {path for path in gone if not _became_cache(path, events.renamed_folders)}
    folders = find_unexpected(check, prefix, gone, are_folders=True)
    # Git does not know any more that these were folders, so it is asked about a file in them.
    asked = {path: path for path in files} | {f"{path}/any": path for path in folders}
    return UnexpectedPaths(happened & ours, asked)


def _became_cache(path: str, renamed: Mapping[str, str]) -> bool:
    """Return whether it is the folder that pytest fills first and then calls `.pytest_cache`.

    It did not disappear: who put something else into it meanwhile could have done so in any new folder.
    """
    parent, _, name = path.rpartition("/")
    cache = f"{parent}/.pytest_cache" if parent else ".pytest_cache"
    return name.startswith("pytest-cache-files-") and renamed.get(path) == cache


def find_pipes(
    check: Check, prefix: str, store: SnapshotStore, top: Path, folders: Iterable[str]
) -> set[str]:
    """Find the named pipes that a check could read; an ignore rule hides none that is guarded."""
    found = find_unexpected(check, prefix, list_pipes(top, folders))
    guarded = set(select_guarded(check.guarded, prefix, found))
    return found - store.filter_ignored(found - guarded, CACHES, by_tree=True)


def find_change_problem(
    changed: Iterable[str], watched: WatchedFolders, open_files: Sequence[str], pipes: Collection[str] = ()
) -> str | None:
    """Say why a run proves nothing although it ended: something may have changed what it has read."""
    if paths := sorted(set(changed)):
        return (
            f"Files that it depends on changed while it ran, so it proves nothing: {name_paths(paths)}. "
            "If it makes one of them itself, the committed .gitignore of the project has to ignore that one."
        )
    if open_files:
        return (
            "Another program had files open for writing that it depends on, so it proves nothing: "
            f"{name_paths(sorted(open_files))}. Close them there."
        )
    if pipes:
        named = name_paths(sorted(pipes))
        return f"No commit has what it reads from a named pipe, so it proves nothing: {named}."
    if watched.problem:
        return f"Nobody knows whether files appeared while it ran, so it proves nothing: {watched.problem}"
    return None


def list_parents(paths: Iterable[str]) -> set[str]:
    """List all folders above these files, but not the root."""
    found: set[str] = set()
    for path in paths:
        parent = path.rpartition("/")[0]
        while parent and parent not in found:
            found.add(parent)
            parent = parent.rpartition("/")[0]
    return found


def list_all(top: Path) -> tuple[set[str], set[str]]:
    """List all folders and all files below a folder, relative to it."""
    folders: set[str] = set()
    files: set[str] = set()
    start = len(str(top)) + 1
    for place, inner, names in os.walk(top):
        folder = place[start:]
        folders.add(folder)
        links = [name for name in inner if os.path.islink(f"{place}/{name}")]  # noqa: PTH114
        files.update(f"{folder}/{name}" if folder else name for name in (*names, *links))
    return folders, files
