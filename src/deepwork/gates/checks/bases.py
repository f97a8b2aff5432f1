"""The files of base commits, and the rules there that hide files."""

from __future__ import annotations

from collections.abc import Mapping

from deepwork.gates.checks.hidden_files import HiddenRules, read_all_rules, read_hidden_rules
from deepwork.kernel.git.exact_files import to_versions
from deepwork.kernel.git.snapshot import SnapshotStore


class BaseFiles:
    """Remembers the last commit only: a project has one base at a time."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Read everything again, as a new process does."""
        self._versions: tuple[str, Mapping[str, str]] = ("", {})
        self._hidden: dict[tuple[str, str, tuple[str, ...]], HiddenRules] = {}

    def map_versions(self, store: SnapshotStore, base: str) -> Mapping[str, str]:
        """Map the files of a commit to their versions; raises GitError if they are not what its hash says."""
        known, versions = self._versions
        if known != base:
            self.forget()
            versions = to_versions(store.list_exactly(base))
            self._versions = base, versions
        return versions

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
