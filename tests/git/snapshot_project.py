"""A project with snapshots."""

from __future__ import annotations

from pathlib import Path

from deepwork.kernel.git.snapshot import SnapshotStore
from deepwork.kernel.git.snapshot_types import ChangeStatus, Snapshot, SnapshotDiff
from git.changes_project import Project


def open_snapshots(project: Project) -> SnapshotStore:
    return SnapshotStore(project.safe_git, project.root / ".deepwork" / "snapshots")


class Watched:
    """A project and its snapshots; `diff_paths` returns what changed since the last call."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.snapshots = open_snapshots(project)
        self.last = self.snapshots.take()

    def take(self) -> Snapshot:
        return self.snapshots.take()

    def diff(self, *, counted: bool = False) -> SnapshotDiff:
        before, self.last = self.last, self.take()
        return self.snapshots.diff(before, self.last, counted=counted)

    def diff_paths(self) -> dict[str, list[str]]:
        return group_paths(self.diff())


def group_paths(difference: SnapshotDiff) -> dict[str, list[str]]:
    found = {
        status.value: [file.path for file in difference.files if file.status is status]
        for status in ChangeStatus
    }
    return {status: paths for status, paths in found.items() if paths}


def count_loose_objects(folder: Path) -> int:
    return len(list((folder / ".deepwork/snapshots/objects").glob("??/*")))
