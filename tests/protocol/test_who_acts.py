"""Who may change a held task, through real processes: two servers over stdio, a server over HTTP, commands."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from access.make import make_token
from application import call_tool, make_app
from cli.run import run_deepwork
from deepwork.edge.server.application import Application
from http_tests.http_server import HttpServer
from protocol.stdio_server import StdioServer
from protocol.token_session import TokenSession

OWNER = "the-owners-own-token-for-these-tests"
AskTool = Callable[..., Any]


class Store:
    """A store that the processes share, with a plan of one task."""

    def __init__(self, app: Application, project: Path, location: str) -> None:
        self.app, self.project = app, project
        self.environment = {"DEEPWORK_DATABASE_URL": location} if "://" in location else {}
        source = {"name": "release", "source_type": "prompt", "source_content": "Release it."}
        workflow = self.call("workflow_create", **source)["id"]
        self.call("workflow_set_plan", id=workflow, plan={"summary": "One.", "tasks": [{"name": "a"}]})
        self.workflow_id = workflow
        self.task_id: str = self.call("workflow_get", id=workflow, include_tasks=True)["tasks"][0]["id"]

    def call(self, tool: str, **arguments: Any) -> Any:
        return call_tool(self.app, tool, **arguments)

    def get_holder(self) -> str | None:
        holder: str | None = self.call("task_get", id=self.task_id).get("assigned_agent_id")
        return holder

    def register_and_claim(self, ask: AskTool) -> str:
        id: str = ask("agent_register", name="worker", runtime="custom")["id"]
        assert ask("task_claim", task_id=self.task_id, agent_id=id)["success"]
        return id

    def complete(self, ask: AskTool, **given: Any) -> Any:
        """Report the task as completed; return `success`, or the code of the error."""
        answer = ask("task_update_status", id=self.task_id, status="completed", outcome="Done.", **given)
        return answer.get("code") or answer["success"]


@pytest.fixture
def store(tmp_path: Path, location: str) -> Iterator[Store]:
    place = location if "://" in location else str(tmp_path / ".deepwork" / "deepwork.db")
    app = make_app(tmp_path, place)
    yield Store(app, tmp_path, location)
    app.close()


def serve_stdio(store: Store) -> StdioServer:
    return StdioServer(store.project, environment=store.environment)


def ask_through(server: StdioServer) -> AskTool:
    return lambda tool, **arguments: server.call(tool, arguments)


def test_a_stdio_server_acts_as_its_own_agent_and_not_as_that_of_another(store: Store):
    with serve_stdio(store) as first, serve_stdio(store) as second:
        holder = store.register_and_claim(ask_through(first))

        assert store.complete(ask_through(second)) == "NOT_ASSIGNED"
        ask_through(second)("agent_register", name="other", runtime="custom")
        assert store.complete(ask_through(second)) == "NOT_ASSIGNED"
        assert store.get_holder() == holder
        assert store.complete(ask_through(first)) is True


def test_a_restarted_stdio_server_asks_for_the_agent_id(store: Store):
    with serve_stdio(store) as server:
        holder = store.register_and_claim(ask_through(server))
    with serve_stdio(store) as server:
        refused = server.call("task_update_status", {"id": store.task_id, "status": "in_progress"})

        assert (refused["code"], refused["recoverable"]) == ("NOT_ASSIGNED", True)
        assert "pass agent_id" in refused["suggestion"]
        assert store.complete(ask_through(server), agent_id=holder) is True


def test_a_claim_lost_to_another_stdio_server_is_stale_without_agent_id(store: Store):
    with serve_stdio(store) as first, serve_stdio(store) as second:
        loser = store.register_and_claim(ask_through(first))
        ask_through(first)("task_release", task_id=store.task_id, agent_id=loser)
        winner = store.register_and_claim(ask_through(second))

        assert store.complete(ask_through(first)) == "STALE_CLAIM"
        assert store.get_holder() == winner


def test_over_http_a_token_acts_as_its_own_agent(store: Store, monkeypatch: pytest.MonkeyPatch):
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    ada, bob = (make_token(store.app, name, "admin")[0] for name in ("ada", "bob"))
    with HttpServer(store.project, token=OWNER) as served:
        first, second = TokenSession(served, ada), TokenSession(served, bob)
        holder = store.register_and_claim(lambda tool, **given: first.call(tool, given))

        assert store.complete(lambda tool, **given: second.call(tool, given)) == "NOT_ASSIGNED"
        assert store.get_holder() == holder
        assert store.complete(lambda tool, **given: first.call(tool, given)) is True


def run_done(store: Store, *flags: str) -> tuple[int, str]:
    words = ["tasks", "done", store.task_id, "--outcome", "Done.", *flags]
    ran = run_deepwork(store.project, *words, environment=store.environment)
    return ran.code, ran.err


def test_a_command_names_the_holder(store: Store):
    holder = store.register_and_claim(store.call)

    code, error = run_done(store)

    assert code == 1
    assert "--agent-id" in error
    assert "--as-person" in error
    assert run_done(store, "--agent-id", holder) == (0, "")


def test_a_command_as_a_person_is_recorded_under_the_name_of_the_user(store: Store):
    store.register_and_claim(store.call)

    assert run_done(store, "--as-person") == (0, "")

    history = store.call("workflow_get", id=store.workflow_id, include_history=True)["history"]
    assert f"human:{getpass.getuser()}" in {line["by_whom"] for line in history}


def test_a_command_is_either_an_agents_or_a_persons(store: Store):
    holder = store.register_and_claim(store.call)

    code, error = run_done(store, "--as-person", "--agent-id", holder)

    assert code == 2
    assert "mutually exclusive" in error


def test_a_command_without_an_agent_moves_a_free_task(store: Store):
    assert run_done(store) == (0, "")
