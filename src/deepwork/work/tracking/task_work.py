"""Which files a task changed, and their versions now: what a person approves when the work is done."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from deepwork.kernel.database.transaction import Database
from deepwork.kernel.errors import DeepworkError
from deepwork.kernel.git.snapshot_types import Snapshot
from deepwork.work.tracking.attribution_service import AttributionService
from deepwork.work.tracking.models import Watch
from deepwork.work.tracking.watch_store import WatchStore

_MAX_LISTED = 500
_MAX_FILES = 1_000_000
GONE = "deleted"
"""The version of a file that does not exist any more."""


class ChangeDescriptions:
    """Describes the work of tasks from snapshots of their trees."""

    def __init__(self, database: Database, attribution: AttributionService) -> None:
        self._database, self._attribution = database, attribution

    def describe(self, task_id: str) -> dict[str, Any] | None:
        """Describe the files that the task changed; None if that is not tracked, as without git.

        Not inside a transaction: it takes a snapshot.
        """
        with self._database.reading() as tx:
            watch = WatchStore(tx).find_latest(task_id)
        if watch is None:
            return None
        try:
            versions = self._find_versions(watch) if watch.ended_at is None else self._compare_ended(watch)
        except (DeepworkError, OSError) as error:
            return {"problem": str(error)}
        return versions if isinstance(versions, dict) and "problem" in versions else _summarize(versions)

    def _find_versions(self, watch: Watch) -> Mapping[str, str]:
        changes = self._attribution.find_changes(watch.task_id)
        if changes.ended is None or changes.ended.snapshot is None:
            return {"problem": " ".join(changes.warnings)}
        return {change.path: change.after or GONE for change in changes.changed}

    def _compare_ended(self, watch: Watch) -> Mapping[str, str]:
        """Return the versions at the end of the work, replaced by those of files that changed since."""
        with self._database.reading() as tx:
            files, _ = WatchStore(tx).list_files(watch.task_id, None, _MAX_FILES)
        snapshots, tree = self._attribution.snapshots, Path(watch.tree_path)
        if watch.host != snapshots.host or watch.ended is None:
            return {"problem": f"its tree is on {watch.host}"}
        now = snapshots.take(tree)
        if now.snapshot is None:
            return {"problem": " ".join(now.warnings)}
        began, ended = Snapshot.from_dict(watch.began), Snapshot.from_dict(watch.ended)
        store = snapshots.open_store(now.tree)
        worked = {change.path: change.after for change in store.diff(began, ended).files}
        since = {change.path: change.after for change in store.diff(ended, now.snapshot).files}
        return {file.path: since.get(file.path, worked.get(file.path)) or GONE for file in files}


def _summarize(versions: Mapping[str, str]) -> dict[str, Any]:
    """List the files, and cover those beyond the list by a digest of all."""
    lines = [f"{path}\0{versions[path]}" for path in sorted(versions)]
    listed = {path: versions[path] for path in sorted(versions)[:_MAX_LISTED]}
    return {
        "changed_files": len(versions),
        "digest": sha256("\n".join(lines).encode(errors="surrogateescape")).hexdigest(),
        "files": listed,
    }
