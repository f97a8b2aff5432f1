"""Old snapshots are pruned."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from application import call_tool
from deepwork.edge.server.application import Application
from deepwork.kernel.git.snapshot import SnapshotStore
from tracking.make import complete_task, create_task, create_workflow_and_phase, write_files
from workspaces.make import create_repository


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return create_repository(tmp_path)


def count_kept_trees(shop: Path) -> int:
    return sum(path.is_file() for path in (shop / ".deepwork/snapshots").glob("*/objects/??/*"))


def change_file_in_task(app: Application, shop: Path, text: str) -> str:
    id = create_task(app, create_workflow_and_phase(app))
    write_files(shop, b_txt=text)
    complete_task(app, id)
    return id


def test_snapshots_older_than_a_month_are_pruned_and_newer_ones_kept(
    app: Application, shop: Path, monkeypatch: pytest.MonkeyPatch
):
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now)
    old = change_file_in_task(app, shop, "older\n")
    change_file_in_task(app, shop, "old\n")
    monkeypatch.setattr(time, "time_ns", lambda: now + 31 * 24 * 3600 * 10**9)
    new = change_file_in_task(app, shop, "new\n")
    change_file_in_task(app, shop, "newest\n")
    before = count_kept_trees(shop)

    app._attribution.snapshots.prune(shop)

    assert 0 < count_kept_trees(shop) < before
    assert "+new" in call_tool(app, "get_task_diff", task_id=new, path="b.txt")["files"][0]["diff"]
    told = call_tool(app, "get_task_diff", task_id=old, path="b.txt")
    assert told["files"][0]["path"] == "b.txt"
    assert told["warning"].startswith("Cannot show the diff")


def test_snapshots_are_pruned_once_a_day(app: Application, shop: Path, monkeypatch: pytest.MonkeyPatch):
    change_file_in_task(app, shop, "one\n")
    trees: list[Path] = []
    open_store = app._attribution.snapshots.open_store

    def seen(tree: Path) -> SnapshotStore:
        trees.append(tree)
        return open_store(tree)

    monkeypatch.setattr(app._attribution.snapshots, "open_store", seen)

    app._attribution.snapshots.prune(shop)
    app._attribution.snapshots.prune(shop)

    assert trees == [shop]
