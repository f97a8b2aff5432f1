"""What is kept to show diffs does not grow for ever."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from application import ask
from deepwork.git.snapshot import Snapshots
from deepwork.server.application import Application
from tracking.make_tracking import begun, complete, task, write
from workspaces.make_workspaces import repository


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return repository(tmp_path)


def kept(shop: Path) -> int:
    return sum(path.is_file() for path in (shop / ".deepwork/snapshots").glob("*/objects/??/*"))


def changed_by_a_task(app: Application, shop: Path, text: str) -> str:
    id = task(app, begun(app))
    write(shop, b_txt=text)
    complete(app, id)
    return id


def test_what_is_a_month_old_goes_and_what_is_newer_stays(
    app: Application, shop: Path, monkeypatch: pytest.MonkeyPatch
):
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now)
    old = changed_by_a_task(app, shop, "older\n")
    changed_by_a_task(app, shop, "old\n")
    monkeypatch.setattr(time, "time_ns", lambda: now + 31 * 24 * 3600 * 10**9)
    new = changed_by_a_task(app, shop, "new\n")
    changed_by_a_task(app, shop, "newest\n")
    before = kept(shop)

    app._watcher.tidy(shop)

    assert 0 < kept(shop) < before
    assert "+new" in ask(app, "get_task_diff", task_id=new, path="b.txt")["files"][0]["diff"]
    told = ask(app, "get_task_diff", task_id=old, path="b.txt")
    assert told["files"][0]["path"] == "b.txt"
    assert told["warning"].startswith("How it was changed cannot be shown")


def test_it_is_done_once_a_day(app: Application, shop: Path, monkeypatch: pytest.MonkeyPatch):
    changed_by_a_task(app, shop, "one\n")
    trees: list[Path] = []
    snapshots_at = app._watcher._snapshots_at

    def seen(tree: Path) -> Snapshots:
        trees.append(tree)
        return snapshots_at(tree)

    monkeypatch.setattr(app._watcher, "_snapshots_at", seen)

    app._watcher.tidy(shop)
    app._watcher.tidy(shop)

    assert trees == [shop]
