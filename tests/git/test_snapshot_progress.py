"""Snapshots of large trees report how many files they have read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deepwork.kernel.call import Call, use_call
from deepwork.kernel.git import checksums, private_index
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.snapshot import SnapshotStore
from git.changes_project import ENVIRONMENT, Project
from git.snapshot_project import open_snapshots
from git.worktrees_project import create_started_project


class Listener:
    """Gets the progress of the calls that it makes."""

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []
        self.call = Call(report_progress=self._hear)

    def _hear(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        self.heard.append((progress, total, message))


def write_files(root: Path, count: int) -> None:
    for number in range(count):
        (root / f"new-{number}.txt").write_text(str(number))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return create_started_project(tmp_path / "project")


def test_a_git_tree_is_read_in_batches(project: Project, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(private_index, "_BATCH_SIZE", 2)
    open_snapshots(project).take()
    write_files(project.root, 5)
    listener = Listener()

    with use_call(listener.call):
        open_snapshots(project).take()

    assert listener.heard == [
        (0, 5, "Read 0 of 5 changed files"),
        (1, 5, "Read 1 of 5 changed files"),
        (3, 5, "Read 3 of 5 changed files"),
    ]


def test_a_small_change_reports_nothing(project: Project):
    write_files(project.root, 5)
    listener = Listener()

    with use_call(listener.call):
        open_snapshots(project).take()

    assert listener.heard == []


def test_a_folder_without_git_reports_every_so_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(checksums, "_REPORT_EVERY", 2)
    write_files(tmp_path, 5)
    listener = Listener()

    with use_call(listener.call):
        SnapshotStore(Git(tmp_path, environment=ENVIRONMENT), tmp_path / ".deepwork").take()

    assert listener.heard == [(2, None, "Read 2 files"), (4, None, "Read 4 files")]
