"""Looks at what a task changed, for those who review it: lines, files, tests that say less than before."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock

from deepwork.gates.checks.models import ALWAYS_GUARDED
from deepwork.gates.checks.responses import WeakenedTests, list_weakened
from deepwork.gates.checks.service import CheckService
from deepwork.kernel.errors import DeepworkError
from deepwork.kernel.git.snapshot_types import Snapshot, SnapshotKind
from deepwork.kernel.records import dataclass
from deepwork.work.tracking.diffs import ChangedFile, DiffService, TreeComparison, read_patch
from deepwork.work.tracking.models import Watch

MAX_PATCH_BYTES = 1_000_000
"""How much of a patch is searched for weakened tests."""
_MAX_KEPT = 500
"""Changes whose look is remembered: what two trees differ in never changes."""

GetChecks = Callable[[Path], CheckService]


@dataclass(frozen=True)
class WorkLook:
    """What work changed."""

    files: tuple[ChangedFile, ...]
    files_count: int
    weakened: tuple[WeakenedTests, ...]
    is_whole: bool
    """Whether all of the patch was searched for weakened tests."""

    @property
    def added(self) -> int:
        return sum(each.added or 0 for each in self.files)

    @property
    def removed(self) -> int:
        return sum(each.removed or 0 for each in self.files)


class WorkLooker:
    """Compares trees of tasks, and remembers what it saw."""

    def __init__(self, diffs: DiffService, get_checks: GetChecks) -> None:
        self.diffs, self._get_checks = diffs, get_checks
        self._kept: OrderedDict[tuple[str, ...], WorkLook] = OrderedDict()
        self._lock = Lock()

    def compare(
        self, task_id: str, watches: Sequence[Watch], *, since_tree: str | None = None
    ) -> tuple[TreeComparison, str | None]:
        """Return the states of a task's tree to compare, and the commit it began at.

        With `since_tree`, the first is that one: what changed since somebody looked at it.
        """
        self.diffs.require_here(watches[-1])
        compared, base = self.diffs.compare(task_id, watches)
        if since_tree is None:
            return compared, base
        return replace(compared, before=Snapshot(SnapshotKind.GIT, since_tree)), base

    def look(
        self, task_id: str, watches: Sequence[Watch], project: Path, *, since_tree: str | None = None
    ) -> WorkLook:
        """Look at what a task changed."""
        compared, base = self.compare(task_id, watches, since_tree=since_tree)
        key = (task_id, compared.before.tree, compared.after.tree, *sorted(compared.only or ()))
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        found = self.look_at(compared, base, project, Path(watches[-1].tree_path))
        with self._lock:
            self._kept[key] = found
            while len(self._kept) > _MAX_KEPT:
                self._kept.popitem(last=False)
        return found

    def look_at(self, compared: TreeComparison, base: str | None, project: Path, tree: Path) -> WorkLook:
        """Look at what differs between two states."""
        read = read_patch(compared, MAX_PATCH_BYTES)
        files: list[ChangedFile] = read["files"]
        guarded = self._select_guarded(project, tree, base, [each.path for each in files])
        return WorkLook(
            tuple(files),
            read["files_count"],
            tuple(list_weakened(read["patch"], guarded)),
            is_whole=not read["truncated"] and len(files) == read["files_count"],
        )

    def _select_guarded(self, project: Path, tree: Path, base: str | None, paths: Iterable[str]) -> list[str]:
        """Return the changed files that decide whether checks pass; without checks, what always does."""
        known = list(paths)
        try:
            if base is not None:
                return self._get_checks(project).select_guarded(
                    tree if tree.is_dir() else project, base, known
                )
        except (DeepworkError, OSError):  # no checks, or a file of them that cannot be read
            pass
        return [path for path in known if path in ALWAYS_GUARDED]
