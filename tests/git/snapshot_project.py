"""A project whose files are looked at from time to time."""

from __future__ import annotations

from pathlib import Path

from deepwork.git.moments import ChangeStatus, Difference, Snapshot
from deepwork.git.snapshot import Snapshots
from git.changes_project import Project


def snapshots_of(project: Project) -> Snapshots:
    return Snapshots(project.asked, project.root / ".deepwork" / "snapshots")


class Watched:
    """A project and its snapshots; `told` is what changed since the last time."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.snapshots = snapshots_of(project)
        self.last = self.snapshots.take()

    def take(self) -> Snapshot:
        return self.snapshots.take()

    def diff(self, *, counted: bool = False) -> Difference:
        before, self.last = self.last, self.take()
        return self.snapshots.diff(before, self.last, counted=counted)

    def told(self) -> dict[str, list[str]]:
        return grouped(self.diff())


def grouped(difference: Difference) -> dict[str, list[str]]:
    found = {status.value: difference.paths(status) for status in ChangeStatus}
    return {status: paths for status, paths in found.items() if paths}


def loose_objects(folder: Path) -> int:
    return len(list((folder / ".deepwork/snapshots/objects").glob("??/*")))
