"""Rewinds over REST: a preview, the rewind as previewed, the list, and the undoing."""

from __future__ import annotations

from starlette.testclient import TestClient

from dashboard.make import World, read
from dashboard.test_actions import act


def test_a_person_rewinds_a_task_and_undoes_that(world: World, page: TestClient) -> None:
    task = world.planned["backend"]
    given = {"task_id": task, "dependents": "keep"}
    before = read(page, f"/tasks/{task}")["task"]["status"]

    preview = act(page, "preview_rewind", **given).json()
    stale = act(page, "rewind_task", **given, digest="0" * 64)
    done = act(page, "rewind_task", **given, digest=preview["digest"]).json()

    assert stale.status_code == 409
    assert (done["stage"], done["created_by"]) == ("done", "human:owner")
    assert read(page, f"/tasks/{task}")["task"]["status"] == "pending"
    assert [each["id"] for each in read(page, "/rewinds", task_id=task)["rewinds"]] == [done["id"]]
    assert read(page, f"/rewinds/{done['id']}")["tasks"][0]["status_before"] == before

    undone = page.post(f"/api/v1/rewinds/{done['id']}/undo", json={}).json()
    assert undone["undoes"] == done["id"]
    assert read(page, f"/rewinds/{done['id']}")["undone_by"] == undone["id"]
    assert page.get("/api/v1/rewinds/rw_000000000000").status_code == 404
