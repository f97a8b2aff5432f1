"""The files of base commits, and files that git ignores although checks depend on them or people guard them.

An agent can let git ignore a file: in `.git/info/exclude`, in the user's own ignore file, or in a
`.gitignore` beside the file. The first two hide nothing here. A guarded file is hidden only by the rules that
the base commit has for the whole project, not by those inside a guarded folder.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Mapping

from deepwork.gates.checks.models import select_guarded
from deepwork.kernel.files.globs import Globs
from deepwork.kernel.git.empty_repository import convert_rules
from deepwork.kernel.git.exact_files import to_versions
from deepwork.kernel.git.snapshot import SnapshotStore
from deepwork.kernel.records import dataclass

CACHES = (
    *("__pycache__/", ".pytest_cache/", ".mypy_cache/", ".ruff_cache/", ".hypothesis/"),
    *(".idea/", ".vscode/", ".DS_Store", "*.swp", "*~"),
)
"""What Python, its tools, editors and systems leave everywhere; many people ignore it in all projects."""
_OWN_STATE = (
    "/.deepwork/*\n!/.deepwork/checks.yml\n!/.deepwork/config.yml\n!/.deepwork/jobs/\n!/.deepwork/templates/"
)
_IGNORE_FILE = ".gitignore"
_MAX_BYTES = 64 * 1024


@dataclass(frozen=True)
class HiddenRules:
    """What may hide guarded files of a project, as patterns from the root of the tree."""

    prefix: str
    guarded: tuple[str, ...]
    excludes: tuple[str, ...]


def read_hidden_rules(
    store: SnapshotStore, base: Mapping[str, str], prefix: str, guarded: tuple[str, ...]
) -> HiddenRules:
    """Read the rules of a base commit: those of the root, and of each folder down to the project."""
    names = prefix.split("/")[:-1]
    folders = ["/".join((*names[:depth], "")) for depth in range(len(names) + 1)]
    rules = [rule for folder in folders for rule in _read_rules(store, base, folder)]
    return HiddenRules(prefix, guarded, (*CACHES, *convert_rules(_OWN_STATE, prefix), *rules))


def read_all_rules(store: SnapshotStore, base: Mapping[str, str]) -> tuple[str, ...]:
    """Read the rules of all `.gitignore` files of a base commit, as patterns from the root of the tree."""
    folders = [path.removesuffix(_IGNORE_FILE) for path in base if path.endswith(_IGNORE_FILE)]
    folders.sort(key=lambda folder: folder.count("/"))  # deeper ones come later, so that they win
    return (*CACHES, *(rule for folder in folders for rule in _read_rules(store, base, folder)))


def _read_rules(store: SnapshotStore, base: Mapping[str, str], folder: str) -> Iterator[str]:
    mode, _, blob = base.get(f"{folder}{_IGNORE_FILE}", "").partition(" ")
    content = store.read_blob(blob, _MAX_BYTES) if mode.startswith("100") else None
    yield from convert_rules(os.fsdecode(content or b""), folder)


def list_hidden(store: SnapshotStore, rules: HiddenRules, known: Container[str]) -> list[str]:
    """List the files that a snapshot of now leaves out, and that no rule of the base hides."""
    found = set(store.list_left_out(CACHES, by_tree=True)) if store.has_own_excludes() else set()
    guards, skipped = Globs(rules.guarded), len(rules.prefix)
    found.update(f"{rules.prefix}{path}" for path in guards.plain_paths)
    if guards.starts:
        left_out = store.list_left_out(rules.excludes, _list_starts(rules, guards))
        found.update(path for path in left_out if guards.matches(path[skipped:]))
    return sorted(path for path in found if path not in known)


def list_open_folders(store: SnapshotStore, rules: HiddenRules) -> set[str]:
    """List the folders that have no file of the last snapshot, and that no rule of the tree hides."""
    found = set(store.list_untracked_folders(CACHES, by_tree=True))
    if (guards := Globs(rules.guarded)).starts:
        found.update(store.list_untracked_folders(rules.excludes, _list_starts(rules, guards)))
    return found


def _list_starts(rules: HiddenRules, guards: Globs) -> list[str]:
    """List the folders that have all files which patterns with wildcards guard."""
    return [f"{rules.prefix}{start.rpartition('/')[0]}" or "." for start in guards.starts]


class BaseFiles:
    """Remembers the last commit only: a project has one base at a time."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Read everything again, as a new process does."""
        self._versions: tuple[str, Mapping[str, str]] = ("", {})
        self._hidden: dict[tuple[str, str, tuple[str, ...]], HiddenRules] = {}
        self._guarded: dict[tuple[str, tuple[str, ...]], dict[str, str]] = {}

    def map_versions(self, store: SnapshotStore, base: str) -> Mapping[str, str]:
        """Map the files of a commit to their versions; raises GitError if they are not what its hash says."""
        known, versions = self._versions
        if known != base:
            self.forget()
            versions = to_versions(store.list_exactly(base))
            self._versions = base, versions
        return versions

    def map_guarded(
        self, store: SnapshotStore, base: str, prefix: str, guarded: tuple[str, ...]
    ) -> Mapping[str, str]:
        """Map the guarded files of a commit to their versions."""
        versions, key = self.map_versions(store, base), (prefix, guarded)
        if key not in self._guarded:
            self._guarded[key] = {path: versions[path] for path in select_guarded(guarded, prefix, versions)}
        return self._guarded[key]

    def read_hidden_rules(
        self, store: SnapshotStore, base: str, prefix: str, guarded: tuple[str, ...]
    ) -> HiddenRules:
        """Return what may hide guarded files."""
        versions, key = self.map_versions(store, base), (base, prefix, guarded)
        if key not in self._hidden:
            self._hidden[key] = read_hidden_rules(store, versions, prefix, guarded)
        return self._hidden[key]

    def read_all_rules(self, store: SnapshotStore, base: str) -> tuple[str, ...]:
        """Return the rules of all `.gitignore` files."""
        return read_all_rules(store, self.map_versions(store, base))
