"""Landings over REST, in what needs a person, and on the command line."""

from __future__ import annotations

from dashboard.make import create_client, read, read_error
from deepwork.overview.single_things import read_thing
from landing.make import LandingProject
from landing.many_tasks import ManyTasks


def test_people_see_and_decide_about_landings_over_rest(project: LandingProject) -> None:
    project.git("checkout", "-q", "-b", "desk")
    tasks = {"one": {"a.txt": "by one\n"}, "two": {"a.txt": "by two\n"}}
    plan = ManyTasks(project.app, project.folder, tasks)
    with create_client(project.app) as page:
        landed = page.post("/api/v1/actions/land_work", json={"workflow_id": plan.id}).json()
        listed = read(page, "/landings")
        first = read(page, "/landings", limit=1)
        rest = read(page, "/landings", cursor=first["cursor"])
        waiting = read(page, "/landings", status="needs_person")["landings"]
        needs = [each for each in read(page, "/home")["needs_you"] if each["kind"] == "landing"]
        given_up = page.post(f"/api/v1/landings/{waiting[0]['id']}/cancel", json={}).json()
        missing = read_error(page, "/landings/ld_000000000000")

    assert {each["title"]: each["status"] for each in landed["landings"]} == {
        "one": "landed",
        "two": "needs_person",
    }
    assert [listed["total"], len(first["landings"]), len(rest["landings"])] == [2, 1, 1]
    assert waiting[0]["workflow"]["name"] == "Many"
    assert [each["label"] for each in waiting[0]["actions"]] == ["Land again", "Give up"]
    assert [(each["title"], each["task"]["name"]) for each in needs] == [
        ("two conflicts with what landed before", "two")
    ]
    assert given_up["status"] == "cancelled"
    assert missing == (404, "LANDING_NOT_FOUND")


def test_a_landing_is_found_by_its_id(project: LandingProject) -> None:
    project.git("checkout", "-q", "-b", "desk")
    plan = ManyTasks(project.app, project.folder, {"one": {"b.txt": "b\n"}})
    [landing] = project.land(workflow_id=plan.id)["landings"]

    with project.app.database.reading() as tx:
        shown = read_thing(tx, "landing", landing["id"])

    assert shown
    assert (shown["status"], shown["merge_commit"]) == ("landed", project.git("rev-parse", "main"))
