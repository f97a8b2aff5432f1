"""The pages say of a plan, its run, its landing and a job what all other interfaces say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from application import call_tool
from approvals.make import ask
from dashboard.make_agent_runs import add_attempt, move
from deepwork.delivery.landing.models import LandingStatus, Problem
from deepwork.delivery.landing.store import LandingStore
from deepwork.delivery.runner.attempt_files import AttemptLocks
from deepwork.delivery.runner.models import AttemptStage, ParkedFor, RunStatus
from deepwork.delivery.runner.service import RunService
from deepwork.edge.cli.framework.applications import call_operation
from deepwork.edge.server.application import Application
from deepwork.gates.approvals.models import ApprovalKind, ApprovalRequest
from e2e.browser import Dashboard, Visitor
from e2e.make import open_app
from jobs.project import make_step, write_job
from jobs.runs import call_job_tool, finish_step
from overview.make import add_landing, execute, make_plan, start_run
from workspaces.make import create_repository

PLACES: dict[str, tuple[str, str]] = {
    "plan": ("/runs/{}", ".run-head"),
    "session": ("/runs/{}", ".run-head"),
    "task": ("/tasks/{}", "main"),
    "run": ("/work/{}", ".run-head"),
    "attempt": ("/live?item={}", ".live-detail"),
    "landing": ("/landings/{}", "main"),
}
"""By the kind of a thing: a page, and the part of it that is about the thing."""


@pytest.fixture
def dashboard(tmp_path: Any) -> Iterator[Dashboard]:
    project = create_repository(tmp_path / "project")
    write_job(project, "letter", [make_step("write"), make_step("send")])
    with Dashboard(project) as running:
        yield running


@pytest.fixture
def app(dashboard: Dashboard) -> Iterator[Application]:
    app, _ = open_app(dashboard.project)
    yield app
    app.close()


@dataclass
class Pages:
    """Reads states on pages, and compares them with the operation that the other interfaces call."""

    visitor: Visitor
    app: Application

    def read(self, kind: str, id: str) -> str:
        """Return the state on the page of a thing, which says why and what is next as everywhere."""
        standing = call_operation(self.app, "get_states", {"kind": kind, "ids": [id]})["states"][id]
        path, place = (text.format(id) for text in PLACES[kind])
        self.visitor.open(path)
        part = self.visitor.page.locator(place).first
        part.locator(".state").first.wait_for()
        word: str = part.locator(".state").first.inner_text()
        because, next = (
            part.locator(".state + .because").first.inner_text() if standing.get("because") else None,
            part.locator(".next code").first.inner_text() if standing.get("next") else None,
        )
        assert word == standing["state"].replace("_", " "), (kind, standing)
        assert because == (standing["because"].replace("_", " ") if standing["because"] else None)
        assert next == standing["next"]
        return word


@pytest.fixture
def pages(visitor: Visitor, app: Application) -> Pages:
    return Pages(visitor, app)


def test_a_plan_its_tasks_and_its_run(pages: Pages) -> None:
    app = pages.app
    plan, ids = make_plan(app)
    agent = call_tool(app, "agent_register", name="Ada", runtime="claude_code")["id"]
    assert [pages.read("plan", plan), pages.read("task", ids["build"])] == ["ready", "waiting"]

    call_tool(app, "task_claim", task_id=ids["design"], agent_id=agent, start=True)
    assert [pages.read("plan", plan), pages.read("task", ids["design"])] == ["running", "running"]
    asked = ask(app, ApprovalRequest(ApprovalKind.TASK, ids["design"], plan, {"name": "design"}))
    assert [pages.read("plan", plan), pages.read("task", ids["design"])] == ["needs you", "needs you"]
    execute(app, "UPDATE approvals SET status = 'stale' WHERE id = :id", id=asked.id)
    call_tool(app, "task_update_status", id=ids["design"], status="failed", error="No.", agent_id=agent)
    assert pages.read("task", ids["design"]) == "failed"
    execute(app, "UPDATE plan_tasks SET status = 'pending', failures = 0 WHERE id = :id", id=ids["design"])

    run, locks = start_run(app, plan), AttemptLocks(app.settings.state_folder)
    locks.take(run.id)
    locks.release_all()
    assert [pages.read("run", run.id), pages.read("plan", plan)] == ["unattended", "unattended"]
    locks.take(run.id)
    attempt = add_attempt(app, run, ids["design"], host=app.settings.machine)
    locks.take(attempt.id)
    assert [pages.read("run", run.id), pages.read("attempt", attempt.id)] == ["running", "running"]
    with app.database.reading() as tx:
        soon = tx.now + 3_600_000
    attempt = move(app, attempt, AttemptStage.PARKED, parked_for=ParkedFor.LIMIT, not_before=soon)
    assert [pages.read("plan", plan), pages.read("attempt", attempt.id)] == ["parked", "parked"]
    locks.release_all()
    assert pages.read("attempt", attempt.id) == "unattended"
    locks.take(run.id)
    RunService(app.database).set_status(run.id, RunStatus.PAUSED)
    assert pages.read("run", run.id) == "needs you"
    locks.release_all()

    call_tool(app, "workflow_update_status", id=plan, status="abandoned", reason="No.")
    assert [pages.read("plan", plan), pages.read("task", ids["build"])] == ["stopped", "stopped"]


@pytest.mark.thorough
def test_a_landing_and_its_task(pages: Pages) -> None:
    app = pages.app
    plan, ids = make_plan(app)
    agent = call_tool(app, "agent_register", name="Ada", runtime="claude_code")["id"]
    call_tool(app, "task_claim", task_id=ids["design"], agent_id=agent, start=True)
    call_tool(app, "task_update_status", id=ids["design"], status="completed", outcome="x", agent_id=agent)
    assert pages.read("task", ids["design"]) == "done"
    landing = add_landing(app, plan, ids["design"], LandingStatus.QUEUED)

    def read_as(status: LandingStatus, **changes: Any) -> str:
        nonlocal landing
        after = replace(landing, status=status, ended_at=1 if status.is_final else None, **changes)
        with app.database.transaction() as tx:
            assert LandingStore(tx).save(landing, after)
        landing = after
        return pages.read("landing", landing.id)

    assert pages.read("landing", landing.id) == "unattended"
    take_branch(app)
    assert pages.read("landing", landing.id) == "waiting"
    assert read_as(LandingStatus.CHECKING) == "running"
    assert pages.read("task", ids["design"]) == "running"
    assert read_as(LandingStatus.NEEDS_PERSON, problem=Problem.CONFLICT) == "needs you"
    assert read_as(LandingStatus.RETURNED, problem=Problem.RED) == "waiting"
    assert read_as(LandingStatus.CANCELLED) == "stopped"
    ended = add_landing(app, plan, ids["design"], LandingStatus.LANDED)
    assert [pages.read("landing", ended.id), pages.read("task", ids["design"])] == ["landed", "landed"]


def take_branch(app: Application) -> None:
    sql = "INSERT INTO branch_leases (repository, branch, holder, epoch, until) VALUES ('r', 'main', 'x', 1, :until)"
    execute(app, sql, until=4_000_000_000_000)


@pytest.mark.thorough
def test_a_job(pages: Pages) -> None:
    app = pages.app

    def start(goal: str) -> str:
        begun = call_job_tool(app, "start_workflow", goal=goal, job_name="letter", workflow_name="main")
        return str(begun["begin_step"]["session_id"])

    id = start("Dear Ada")
    assert pages.read("session", id) == "running"
    asked = ask(app, ApprovalRequest(ApprovalKind.STEP, f"{id}/write", id, {"name": "write"}))
    assert pages.read("session", id) == "needs you"
    execute(app, "UPDATE approvals SET status = 'stale' WHERE id = :id", id=asked.id)
    run = start_run(app, None, job="letter/main", goal="Dear Ada")
    execute(app, "UPDATE runner_runs SET session_id = :id", id=id)
    attempt = add_attempt(app, run, f"{id}/write", workflow_id=None, host=app.settings.machine)
    locks = AttemptLocks(app.settings.state_folder)
    for each in (run.id, attempt.id):
        locks.take(each)
    assert pages.read("session", id) == "running"
    locks.release_all()
    assert pages.read("session", id) == "unattended"
    move(app, attempt, AttemptStage.FAILED)
    RunService(app.database).set_status(run.id, RunStatus.NEEDS_PERSON, "Every agent has tried it.")
    assert pages.read("session", id) == "failed"
    call_job_tool(app, "abort_workflow", explanation="No.", session_id=id)
    assert pages.read("session", id) == "stopped"

    done = start("Dear Bob")
    for step in ("write", "send"):
        (pages.visitor.dashboard.project / f"{step}.md").write_text("Dear Bob")
        finish_step(app, f"{step}.md", session_id=done)
    assert pages.read("session", done) == "done"
