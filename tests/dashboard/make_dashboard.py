"""A store with some of everything, made by the tools themselves, and a client that reads it as a browser does."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from application import Clock, ask
from deepwork.access.models import Scope
from deepwork.access.tools import TokenTools
from deepwork.server.application import Application
from deepwork.server.http.asgi import application
from deepwork.server.http.policy import Policy
from jobs import project as jobs
from jobs.runs import ask as ask_job
from tracking import make_tracking as track
from workspaces.make_workspaces import workflow

TOKEN = "the-token-of-the-owner-of-these-tests"
HOST = "127.0.0.1:8765"


def browser(app: Application, token: str = TOKEN) -> TestClient:
    """A client of the whole application, guard included, with a token of its own."""
    policy = Policy(hosts=frozenset({HOST}), token=TOKEN, mcp_needs_token=True, cookie_name="deepwork_8765")
    client = TestClient(
        application(app, None, policy), base_url=f"http://{HOST}", raise_server_exceptions=False
    )
    client.headers["authorization"] = f"Bearer {token}"
    return client


def named_token(app: Application, name: str, scope: str) -> str:
    """A token that the owner gave to somebody."""
    token: str = TokenTools(app.database).token_create(name, Scope(scope)).token
    return token


def read(client: TestClient, path: str, /, **query: Any) -> Any:
    """What an address answers, which must be what it promises."""
    answer = client.get(f"/api/v1{path}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(client: TestClient, path: str, /, **query: Any) -> tuple[int, str]:
    """How an address refuses, in the one form of all errors."""
    answer = client.get(f"/api/v1{path}", params=query)
    error = answer.json()
    assert set(error) == {"code", "message", "recoverable", "suggestion"}, error
    return answer.status_code, error["code"]


def pages_of(client: TestClient, path: str, name: str, /, **query: Any) -> list[list[Any]]:
    """Every page of a list, as a reader turns them."""
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
    """What there is, by name."""

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


def tracked(app: Application, world: World, folder: Path, clock: Clock | None = None) -> None:
    """A workflow with a phase done and one under way, a blocker, a failure and a task to look at."""
    world.track = track.workflow(app, name="Payments", objective="Take money in two currencies.")
    first = (world.track, track.phase(app, world.track, 1, name="Survey"))
    look = track.task(app, first, "look around", areas=["*.md"])
    world.decision = ask(
        app, "log_decision", task_id=look, category="library_choice", question="Which money type?",
        chosen="Decimal", reasoning="Floats lose cents.", options_considered=["float", "Decimal"],
    )["decision_id"]  # fmt: skip
    (folder / "notes.md").write_text("look\n")
    track.complete(app, look, metadata={"tokens_input": 900, "tokens_output": 100})
    ask(app, "complete_phase", phase_id=first[1], status="completed")
    second = (world.track, track.phase(app, world.track, 2, name="Build"))
    build = track.task(app, second, "build", agent_name="Grace")
    part = track.task(app, second, "write the ledger", parent_task_id=build, agent_name="Grace")
    ask(app, "log_milestone", task_id=part, message="half of it", progress=50)
    if clock:
        clock.advance(seconds=5)
    ask(app, "log_milestone", task_id=part, message="tests are red")
    broken = track.task(app, second, "migrate", agent_name="Ada")
    track.complete(app, broken, "failed", outcome={"summary": "The table is locked."})
    unsure = track.task(app, second, "round", agent_name="Ada")
    track.complete(
        app, unsure, "partial_success",
        outcome={"summary": "Rounds half up.", "manual_review_needed": True, "manual_review_reason": "Is it legal?"},
    )  # fmt: skip
    world.blocker = track.blocker(app, part, "Which currency comes first?")
    world.tasks = {"look": look, "build": build, "part": part, "broken": broken, "unsure": unsure}
    world.done_track = track.workflow(app, name="Docs", objective="Say it in words.")
    ask(
        app, "complete_workflow", workflow_id=world.done_track, status="completed", summary="All said.",
        achievements=["a page"], limitations=["no pictures"],
    )  # fmt: skip


def planned(app: Application, world: World) -> None:
    """A plan with a task done, one held, one that failed and some that wait; and one that is paused."""
    world.plan = ask(
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
    ask(app, "workflow_set_plan", id=world.plan, plan=plan)
    shown = ask(app, "workflow_get", id=world.plan, include_tasks=True)["tasks"]
    world.planned = {task["name"]: task["id"] for task in shown}
    world.agent = ask(app, "agent_register", name="Ada", runtime="codex")["id"]
    for name in ("design", "backend", "frontend"):
        ask(app, "task_claim", task_id=world.planned[name], agent_id=world.agent)
        _move(app, world, name, "in_progress")
        if name == "design":
            noted = {"type": "progress", "summary": "drawn", "agent_id": world.agent}
            ask(app, "checkpoint_add", task_id=world.planned[name], **noted)
            _move(app, world, name, "completed", outcome="Drawn.")
    _move(app, world, "frontend", "failed", error="No browser.")
    world.paused, _ = workflow(app, "one", name="Later")
    ask(app, "workflow_update_status", id=world.paused, status="paused", reason="Wait for the budget.")


def _move(app: Application, world: World, name: str, status: str, **said: str) -> None:
    ask(
        app, "task_update_status", id=world.planned[name], status=status, agent_id=world.agent, **said
    )  # fmt: skip


def session(app: Application, world: World, folder: Path) -> None:
    """A run of a job whose second step was sent back by its review."""
    steps = [
        jobs.step("draft"),
        jobs.step("polish", reviews=[jobs.review(Clear="Is it clear?")]),
        jobs.step("send"),
    ]
    jobs.job(folder, "letter", steps)
    begun = ask_job(
        app, "start_workflow", goal="Write to everybody.", job_name="letter", workflow_name="main"
    )
    world.job = begun["begin_step"]["session_id"]
    jobs.write(folder, "draft.md", "polish.md")
    ask_job(app, "finished_step", outputs={"draft.md": "draft.md"})
    ask_job(app, "finished_step", outputs={"polish.md": "polish.md"})


def everything(app: Application, folder: Path, clock: Clock | None = None) -> World:
    """Some of everything, a minute apart; of the plan's agent was just heard."""
    world = World()
    tracked(app, world, folder, clock)
    if clock:
        clock.advance(seconds=60)
    session(app, world, folder)
    if clock:
        clock.advance(seconds=60)
    planned(app, world)
    return world
