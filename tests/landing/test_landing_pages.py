"""Landings over REST, in what needs a person, and on the command line."""

from __future__ import annotations

from dataclasses import replace

from dashboard.make import create_client, read, read_error
from dashboard.test_evidence import PROOF
from deepwork.delivery.landing.models import Landing, LandingKind, LandingStatus
from deepwork.delivery.landing.store import LandingStore
from deepwork.edge.cli.framework.applications import call_operation
from deepwork.edge.server.application import Application
from deepwork.gates.approvals.models import ApprovalKind, ApprovalRequest
from deepwork.gates.approvals.service import ask
from deepwork.gates.checks.models import ProofSubject
from deepwork.gates.checks.store import ProofStore
from landing.make import LandingProject
from landing.many_tasks import ManyTasks
from workspaces.make import create_plan


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

    shown = call_operation(project.app, "get_thing", {"kind": "landing", "id": landing["id"]})["thing"]

    assert (shown["status"], shown["merge_commit"]) == ("landed", project.git("rev-parse", "main"))


def test_a_landing_has_its_place_in_the_queue_its_checks_and_its_approval(app: Application) -> None:
    plan, tasks = create_plan(app, "one", "two", "three", "four")
    common = Landing(
        id="",
        kind=LandingKind.TASK,
        subject_id="",
        workflow_id=plan,
        task_id=None,
        title="",
        host="h",
        repository_path="/r",
        target="main",
        status=LandingStatus.QUEUED,
        done_at=0,
        created_by="human:ada",
        created_at=1,
        updated_at=1,
    )
    made = [
        replace(common, id=f"ld_{task}", subject_id=task, task_id=task, title=task, done_at=-number)
        for number, task in enumerate(tasks)
    ]
    made[2] = replace(made[2], status=LandingStatus.WAITING)
    made[3] = replace(made[3], status=LandingStatus.LANDED, ended_at=2)
    with app.database.transaction() as tx:
        for landing in made:
            assert LandingStore(tx).add(landing)
        ProofStore(tx).add(PROOF)
        ProofStore(tx).add_uses(ProofSubject("landing", made[3].id), [PROOF.id])
    asked = ask(app.database, ApprovalRequest(ApprovalKind.LANDING, made[2].id, plan, {"name": "three"}))

    with create_client(app) as page:
        listed = {each["id"]: each for each in read(page, "/landings", workflow_id=plan)["landings"]}
        ended = read(page, "/landings", ended=True)["landings"]
        of_task = read(page, "/landings", task_id=tasks[1])
        waiting, landed = read(page, f"/landings/{made[2].id}"), read(page, f"/landings/{made[3].id}")

    assert [listed[each.id].get("position") for each in made] == [2, 1, None, None]
    assert [each["id"] for each in ended] == [made[3].id]
    assert (of_task["total"], of_task["landings"][0]["id"]) == (1, made[1].id)
    assert waiting["approval_id"] == asked.id
    assert [check["name"] for check in landed["checks"]] == [PROOF.check_name]
    assert listed[made[3].id]["checks"] == landed["checks"]
