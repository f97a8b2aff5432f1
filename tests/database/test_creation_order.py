"""Lists by time keep the order of creation within one millisecond, and their pages neither skip nor repeat.

The clock of these tests stands still, so every row has the same time and only the order of creation is left.
Ids are random: eight of them are in order by luck once in 40,320 times.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from application import NOW, call_tool
from dashboard.make import create_client, create_token, read, read_pages
from deepwork.edge.server.application import Application
from deepwork.gates.access.operations import TokenOperations
from deepwork.kernel.values import format_timestamp
from deepwork.work.jobs import tools as job_tools
from deepwork.work.tracking.models import AttributedChange, Attribution
from deepwork.work.tracking.watch_store import WatchStore
from jobs import project as jobs
from jobs.runs import start_job
from tracking import make as track
from workspaces.make import create_plan, create_repository

COUNT = 8
SIZE = 3
"""The page size, small enough that a list has several pages."""

Ids = list[str]


def repeat(create: Callable[[int], str]) -> Ids:
    return [create(number) for number in range(COUNT)]


def register_agents(app: Application) -> Ids:
    return repeat(lambda n: call_tool(app, "agent_register", name=f"agent {n}", runtime="custom")["id"])


def create_plans(app: Application) -> Ids:
    return repeat(lambda n: create_plan(app, f"task {n}", name="Release")[0])


def page_by_offset(app: Application, tool: str, key: str, id_key: str, **arguments: Any) -> Ids:
    """Return every id of a list, read page by page with `limit` and `offset`."""
    pages = (
        call_tool(app, tool, limit=SIZE, offset=offset, **arguments)[key] for offset in range(0, COUNT, SIZE)
    )
    return [item[id_key] for page in pages for item in page]


def page_context(app: Application, workflow_id: str, section: str) -> list[dict[str, Any]]:
    """Return every item of one section of get_context."""
    found: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        answer = call_tool(
            app, "get_context", workflow_id=workflow_id, include=[section], limit=SIZE, **cursor
        )
        found += answer[section]
        if not answer.get("cursor"):
            return found
        cursor = {"cursor": answer["cursor"]}


def page_rest(app: Application, path: str, key: str, **query: Any) -> list[Any]:
    """Return every item of a list of the REST interface."""
    client: TestClient = create_client(app)
    return [item for page in read_pages(client, path, key, limit=SIZE, **query) for item in page]


def test_agents_are_listed_in_the_order_of_registration(app: Application):
    created = register_agents(app)

    assert [agent["id"] for agent in call_tool(app, "agent_list", limit=COUNT)["agents"]] == created
    assert [agent["id"] for agent in page_rest(app, "/agents", "agents")] == created


def test_plans_are_listed_newest_first(app: Application):
    created = create_plans(app)

    assert page_by_offset(app, "workflow_list", "workflows", "id") == created[::-1]


def test_ready_tasks_are_offered_by_the_age_of_their_plans(app: Application):
    created = create_plans(app)
    agent = register_agents(app)[0]

    offered = call_tool(app, "task_get_available", agent_id=agent, limit=COUNT)["tasks"]

    assert [task["workflow_id"] for task in offered] == created


def test_a_thread_is_read_in_the_order_it_was_written(app: Application):
    ada, bob, *_ = register_agents(app)
    thread: dict[str, str] = {}

    def write(number: int) -> str:
        sender, recipient = (ada, bob) if number % 2 else (bob, ada)
        sent = call_tool(
            app, "message_send", sender_id=sender, recipient_id=recipient, message_type="query",
            body=f"word {number}", **thread,
        )  # fmt: skip
        thread.update(reply_to_id=sent["id"])
        id: str = sent["id"]
        return id

    written = repeat(write)
    thread_id = call_tool(app, "message_get", id=written[0])["thread_id"]

    newest = call_tool(app, "message_list", agent_id=ada, thread_id=thread_id, limit=COUNT)["messages"]
    found = written[:1]
    while page := call_tool(
        app, "message_list", agent_id=ada, thread_id=thread_id, since_id=found[-1], limit=SIZE
    )["messages"]:
        found += [message["id"] for message in page]

    assert [message["id"] for message in newest] == written[::-1]
    assert found == written


def test_repositories_and_workspaces_are_listed_in_the_order_of_creation(app: Application, tmp_path: Path):
    registered = repeat(
        lambda n: call_tool(app, "repository_register", path=str(create_repository(tmp_path / f"shop {n}")))[
            "id"
        ]
    )
    plan, _ = create_plan(app, "build", repository_path=str(tmp_path / "shop 0"))
    made = repeat(
        lambda n: call_tool(
            app, "workspace_create", workflow_id=plan, path=str(tmp_path / f"tree {n}"), branch=f"b{n}"
        )["id"]
    )

    repositories = page_by_offset(app, "repository_list", "repositories", "id")
    workspaces = call_tool(app, "workspace_list", workflow_id=plan, limit=COUNT)["workspaces"]

    assert repositories == registered[::-1]
    assert [workspace["id"] for workspace in workspaces] == made


def test_tokens_are_listed_in_the_order_of_creation(app: Application):
    names = [f"token-{number}" for number in (3, 1, 4, 0, 5, 2, 7, 6)]
    for name in names:
        create_token(app, name, "read")

    assert [token.name for token in TokenOperations(app.database).token_list().tokens] == names


def test_tracked_workflows_are_listed_newest_first(app: Application):
    created = repeat(lambda _: track.create_workflow(app))

    assert page_by_offset(app, "get_tracked_workflows", "workflows", "id") == created[::-1]


def test_tracked_tasks_are_listed_in_the_order_of_their_start(app: Application):
    where = track.create_workflow_and_phase(app)
    started = repeat(lambda n: track.create_task(app, where, f"task {n}"))

    assert [task["id"] for task in page_context(app, where[0], "tasks")] == started
    assert [row[0] for row in page_rest(app, f"/runs/{where[0]}/tasks", "rows")] == started


def test_decisions_issues_and_milestones_are_listed_newest_first(app: Application):
    where = track.create_workflow_and_phase(app)
    task = track.create_task(app, where)
    issues = repeat(lambda n: track.create_blocker(app, task, f"Question {n}?"))
    decisions = repeat(
        lambda n: call_tool(
            app, "log_decision", task_id=task, category="other", question=f"Question {n}?", chosen="Yes",
            reasoning="It is.", options_considered=["Yes", "No"],
        )["decision_id"]
    )  # fmt: skip
    messages = repeat(lambda n: _say(app, task, f"step {n}"))

    def context(section: str, key: str = "id") -> Ids:
        return [item[key] for item in page_context(app, where[0], section)]

    def rest(path: str, key: str, **query: Any) -> Ids:
        return [item["id"] for item in page_rest(app, path, key, **query)]

    assert context("decisions") == rest("/decisions", "decisions") == decisions[::-1]
    assert rest(f"/runs/{where[0]}/decisions", "decisions") == decisions[::-1]
    assert context("blockers") == rest("/blockers", "blockers") == issues[::-1]
    assert rest("/blockers", "blockers", order="asc") == issues
    assert context("milestones", "message") == messages[::-1]


def _say(app: Application, task_id: str, message: str) -> str:
    call_tool(app, "log_milestone", task_id=task_id, message=message)
    return message


def test_runs_of_all_kinds_are_listed_in_the_order_of_creation(
    app: Application, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    jobs.write_job(tmp_path, "chain", [jobs.make_step("a")])
    monkeypatch.setattr(job_tools, "format_now", lambda: format_timestamp(NOW))
    create_plans(app)  # so that one kind has far more rows than the others
    kinds: list[Callable[[], str]] = [
        lambda: create_plan(app, "build")[0], lambda: track.create_workflow(app), lambda: start_job(app),
    ]  # fmt: skip
    created = repeat(lambda n: kinds[n % len(kinds)]())

    for sort, order in product(("started", "updated"), ("asc", "desc")):
        found = [run["id"] for run in page_rest(app, "/runs", "runs", sort=sort, order=order)]

        assert len(found) == 2 * COUNT, (sort, order)
        assert [id for id in found if id in created] == created[:: 1 if order == "asc" else -1], (sort, order)


def test_runs_of_one_name_are_listed_in_the_order_of_creation(app: Application):
    created = create_plans(app)

    for order in ("asc", "desc"):
        found = [run["id"] for run in page_rest(app, "/runs", "runs", sort="name", order=order)]

        assert found == created[:: 1 if order == "asc" else -1], order


def test_the_next_page_continues_although_the_last_note_was_deleted(app: Application):
    where = track.create_workflow_and_phase(app)
    task = track.create_task(app, where)
    said = repeat(lambda n: _say(app, task, f"step {n}"))
    wanted: dict[str, Any] = {"workflow_id": where[0], "include": ["milestones"]}
    first = call_tool(app, "get_context", **wanted, limit=SIZE)
    with app.database.transaction() as tx:
        tx.execute("DELETE FROM milestones WHERE message = :gone", gone=first["milestones"][-1]["message"])

    rest = call_tool(app, "get_context", **wanted, limit=COUNT, cursor=first["cursor"])["milestones"]

    assert [milestone["message"] for milestone in rest] == said[::-1][SIZE:]


def test_the_stack_of_sessions_is_shown_outermost_first(
    app: Application, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    jobs.write_job(tmp_path, "chain", [jobs.make_step("a")])
    monkeypatch.setattr(job_tools, "format_now", lambda: format_timestamp(NOW))
    started = repeat(lambda _: start_job(app))

    stack = read(create_client(app), f"/runs/{started[0]}")["session"]["stack"]

    assert [entry["session_id"] for entry in stack] == started


def test_a_file_is_shown_as_its_last_task_left_it(app: Application):
    where = track.create_workflow_and_phase(app)
    tasks = repeat(lambda n: track.create_task(app, where, f"task {n}"))
    with app.database.transaction() as tx:
        for task in tasks:
            versions = ("1", None) if task == tasks[-1] else (None, "1")
            file = AttributedChange("a.txt", *versions, attribution=Attribution.EXCLUSIVE)
            WatchStore(tx).save_files(task, where[0], [file])

    [file] = read(create_client(app), f"/runs/{where[0]}/files")["files"]

    assert file["status"] == "deleted"
    assert [task["id"] for task in file["tasks"]] == tasks


@pytest.mark.parametrize("kind", ["plan", "track"])
def test_search_results_are_listed_newest_first(app: Application, kind: str):
    created = create_plans(app) if kind == "plan" else repeat(lambda _: track.create_workflow(app))

    found = read(create_client(app), "/search", q="Release")["results"]

    assert [each["id"] for each in found if each["kind"] == "run"] == created[::-1]


def test_job_sessions_are_listed_in_the_order_of_their_start(
    app: Application, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    jobs.write_job(tmp_path, "chain", [jobs.make_step("a")])
    monkeypatch.setattr(job_tools, "format_now", lambda: format_timestamp(NOW))
    started = repeat(lambda _: start_job(app))

    assert [session.session_id for session in app.sessions.list_all()] == started
    runs = page_rest(app, "/runs", "runs", order="asc")
    assert [run["id"] for run in runs] == started


def test_a_lost_session_counter_continues_after_the_last_session(app: Application, tmp_path: Path):
    jobs.write_job(tmp_path, "chain", [jobs.make_step("a")])
    start_job(app)
    (tmp_path / ".deepwork" / "tmp" / "session_counter").unlink()

    start_job(app)

    assert [session.created_seq for session in app.sessions.list_all()] == [1, 2]
