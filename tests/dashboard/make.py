"""Fills a store with data of every kind through the tools, and creates HTTP clients for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from application import Clock, call_tool
from deepwork.edge.server.application import Application
from deepwork.edge.server.http.connections import create_asgi_app
from deepwork.edge.server.http.policy import AccessPolicy
from deepwork.gates.access.models import Scope
from deepwork.gates.access.operations import TokenOperations
from jobs import project as jobs
from jobs.runs import call_job_tool as ask_job
from tracking import make as track
from workspaces.make import create_plan

TOKEN = "the-token-of-the-owner-of-these-tests"
HOST = "127.0.0.1:8765"


def create_client(app: Application, token: str = TOKEN) -> TestClient:
    """Create a client of the whole application, guard included, that sends this token."""
    policy = AccessPolicy(
        hosts=frozenset({HOST}), token=TOKEN, mcp_needs_token=True, cookie_name="deepwork_8765"
    )
    client = TestClient(
        create_asgi_app(app, None, policy), base_url=f"http://{HOST}", raise_server_exceptions=False
    )
    client.headers["authorization"] = f"Bearer {token}"
    return client


def create_token(app: Application, name: str, scope: str, *, is_person: bool = False) -> str:
    """Create a named token with this scope."""
    token: str = TokenOperations(app.database).token_create(name, Scope(scope), is_person=is_person).token
    return token


def read(client: TestClient, path: str, /, **query: Any) -> Any:
    """Read an endpoint and check that it succeeds."""
    answer = client.get(f"/api/v1{path}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def read_error(client: TestClient, path: str, /, **query: Any) -> tuple[int, str]:
    """Read an endpoint that fails; return status and error code."""
    answer = client.get(f"/api/v1{path}", params=query)
    error = answer.json()
    assert set(error) == {"code", "message", "recoverable", "suggestion"}, error
    return answer.status_code, error["code"]


def read_pages(client: TestClient, path: str, name: str, /, **query: Any) -> list[list[Any]]:
    """Read every page of a list by its cursors."""
    pages: list[list[Any]] = []
    cursor: dict[str, str] = {}
    while True:
        answer = read(client, path, **query, **cursor)
        pages.append(answer[name])
        if answer["cursor"] is None:
            return pages
        cursor = {"cursor": answer["cursor"]}


@dataclass
class World:
    """The ids of the data."""

    track: str = ""
    tasks: dict[str, str] = field(default_factory=dict)
    done_track: str = ""
    plan: str = ""
    planned: dict[str, str] = field(default_factory=dict)
    paused: str = ""
    job: str = ""
    agent: str = ""
    blocker: str = ""
    decision: str = ""
    agent_run: str = ""
    attempt: str = ""
    wish: str = ""


def make_tracked(app: Application, world: World, folder: Path, clock: Clock | None = None) -> None:
    """Make a workflow with an ended and an active phase, a blocker, a failed task and one to review."""
    world.track = track.create_workflow(app, name="Payments", objective="Take money in two currencies.")
    first = (world.track, track.create_phase(app, world.track, 1, name="Survey"))
    look = track.create_task(app, first, "look around", areas=["*.md"])
    world.decision = call_tool(
        app, "log_decision", task_id=look, category="library_choice", question="Which money type?",
        chosen="Decimal", reasoning="Floats lose cents.", options_considered=["float", "Decimal"],
    )["decision_id"]  # fmt: skip
    (folder / "notes.md").write_text("look\n")
    track.complete_task(app, look, metadata={"tokens_input": 900, "tokens_output": 100})
    call_tool(app, "complete_phase", phase_id=first[1], status="completed")
    second = (world.track, track.create_phase(app, world.track, 2, name="Build"))
    build = track.create_task(app, second, "build", agent_name="Grace")
    part = track.create_task(app, second, "write the ledger", parent_task_id=build, agent_name="Grace")
    call_tool(app, "log_milestone", task_id=part, message="half of it", progress=50)
    if clock:
        clock.advance(seconds=5)
    call_tool(app, "log_milestone", task_id=part, message="tests are red")
    broken = track.create_task(app, second, "migrate", agent_name="Ada")
    track.complete_task(app, broken, "failed", outcome={"summary": "The table is locked."})
    unsure = track.create_task(app, second, "round", agent_name="Ada")
    track.complete_task(
        app, unsure, "partial_success",
        outcome={"summary": "Rounds half up.", "manual_review_needed": True, "manual_review_reason": "Is it legal?"},
    )  # fmt: skip
    world.blocker = track.create_blocker(app, part, "Which currency comes first?")
    world.tasks = {"look": look, "build": build, "part": part, "broken": broken, "unsure": unsure}
    world.done_track = track.create_workflow(app, name="Docs", objective="Say it in words.")
    call_tool(
        app, "complete_workflow", workflow_id=world.done_track, status="completed", summary="All said.",
        achievements=["a page"], limitations=["no pictures"],
    )  # fmt: skip


def make_planned(app: Application, world: World) -> None:
    """Make a plan with a completed, a claimed, a failed and some waiting tasks; and a paused plan."""
    world.plan = call_tool(
        app, "workflow_create", name="Release", source_type="prompt", source_content="Ship version 2.",
        max_parallel_tasks=3,
    )["id"]  # fmt: skip
    tasks: list[dict[str, Any]] = [
        {"name": "design", "description": "Draw it.", "sequence": 1},
        {"name": "backend", "description": "Serve it.", "sequence": 2, "depends_on": ["design"], "files_likely_affected": ["api.py"]},
        {"name": "frontend", "description": "Show it.", "sequence": 2, "depends_on": ["design"]},
        {"name": "ship", "description": "Tag it.", "sequence": 3},
    ]  # fmt: skip
    plan = {
        "summary": "Three steps.",
        "approach": "From below.",
        "risks": ["late"],
        "assumptions": ["a server"],
        "tasks": tasks,
    }
    call_tool(app, "workflow_set_plan", id=world.plan, plan=plan)
    shown = call_tool(app, "workflow_get", id=world.plan, include_tasks=True)["tasks"]
    world.planned = {task["name"]: task["id"] for task in shown}
    world.agent = call_tool(app, "agent_register", name="Ada", runtime="codex")["id"]
    for name in ("design", "backend", "frontend"):
        call_tool(app, "task_claim", task_id=world.planned[name], agent_id=world.agent)
        _move(app, world, name, "in_progress")
        if name == "design":
            noted = {"type": "progress", "summary": "drawn", "agent_id": world.agent}
            call_tool(app, "checkpoint_add", task_id=world.planned[name], **noted)
            _move(app, world, name, "completed", outcome="Drawn.")
    _move(app, world, "frontend", "failed", error="No browser.")
    world.paused, _ = create_plan(app, "one", name="Later")
    call_tool(app, "workflow_update_status", id=world.paused, status="paused", reason="Wait for the budget.")


def _move(app: Application, world: World, name: str, status: str, **said: str) -> None:
    call_tool(
        app, "task_update_status", id=world.planned[name], status=status, agent_id=world.agent, **said
    )  # fmt: skip


def make_session(app: Application, world: World, folder: Path) -> None:
    """Make a job session whose second step is at its gate."""
    steps = [
        jobs.make_step("draft"),
        jobs.make_step("polish", reviews=[jobs.make_review(Clear="Is it clear?")]),
        jobs.make_step("send"),
    ]
    jobs.write_job(folder, "letter", steps)
    begun = ask_job(
        app, "start_workflow", goal="Write to everybody.", job_name="letter", workflow_name="main"
    )
    world.job = begun["begin_step"]["session_id"]
    jobs.write_files(folder, "draft.md", "polish.md")
    ask_job(app, "finished_step", outputs={"draft.md": "draft.md"})
    ask_job(app, "finished_step", outputs={"polish.md": "polish.md"})


def fail_review(app: Application) -> None:
    """Report that the agent's own review of the second step failed."""
    verdict = {"review_run_each": "step", "passed": False, "feedback": "Not yet."}
    ask_job(app, "finished_step", outputs={"polish.md": "polish.md"}, review_results=[verdict])


def make_everything(app: Application, folder: Path, clock: Clock | None = None) -> World:
    """Make data of every kind, a minute apart; the plan's agent is online."""
    world = World()
    make_tracked(app, world, folder, clock)
    if clock:
        clock.advance(seconds=60)
    make_session(app, world, folder)
    fail_review(app)
    if clock:
        clock.advance(seconds=60)
    make_planned(app, world)
    return world
