"""Every workspace and repository tool through a real server process, on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from application import empty_database
from protocol.stdio_server import StdioServer
from workspaces.make import commit, create_repository, run_git

WORKSPACE = {
    "id", "workflow_id", "path", "branch", "base_branch", "base_commit", "status", "is_made", "host",
    "repository_path", "task_ids", "created_by", "created_at", "updated_at",
}  # fmt: skip
REPOSITORY = {"id", "path", "name", "host", "created_at", "updated_at"}


class Client:
    """A client of one server, in a repository of its own."""

    def __init__(self, wire: StdioServer, project: Path) -> None:
        self._wire = wire
        self.project = project

    def ask(self, tool: str, **arguments: Any) -> Any:
        answer = self._wire.request("tools/call", {"name": tool, "arguments": arguments})["result"]
        assert not answer.get("isError"), answer
        return answer["structuredContent"]

    def error(self, tool: str, **arguments: Any) -> Any:
        return self._wire.call(tool, arguments)

    def plan(self, **given: Any) -> tuple[str, list[str]]:
        """A workflow with two tasks; its id and theirs."""
        id = self.ask(
            "workflow_create",
            name="w",
            source_type="prompt",
            source_content="x",
            max_parallel_tasks=3,
            **given,
        )["id"]
        tasks = [{"name": name, "description": "", "sequence": 1, "parallel_group": "g"} for name in "ab"]
        self.ask("workflow_set_plan", id=id, plan={"summary": "s", "tasks": tasks})
        return id, [line["id"] for line in self.ask("workflow_get", id=id, include_tasks=True)["tasks"]]


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    project = create_repository(tmp_path_factory.mktemp("project"))
    environment = {}
    if request.param == "postgres":
        environment["DEEPWORK_DATABASE_URL"] = url = request.getfixturevalue("postgres_url")
        empty_database(url)
    with StdioServer(project, environment=environment) as wire:
        yield Client(wire, project)


def test_a_workspace_can_be_created_listed_checked_and_merged(client: Client):
    id, (one, _) = client.plan()

    made = client.ask(
        "workspace_create", workflow_id=id, path=".deepwork/worktrees/x", branch="x", base_branch="main",
        task_ids=[one], create=True,
    )  # fmt: skip

    assert made.keys() == {"id", "path"}
    listed = client.ask("workspace_list", workflow_id=id, status=["active"])
    assert listed.keys() == {"workspaces", "total"}
    (shown,) = listed["workspaces"]
    assert shown.keys() == WORKSPACE
    assert (shown["branch"], shown["base_branch"], shown["task_ids"]) == ("x", "main", [one])
    commit(Path(made["path"]), a_txt="two\n")
    assert client.ask("workspace_check", id=made["id"]) == {
        "clean": True, "conflicts_with_base": [], "conflicts_with": {},
    }  # fmt: skip
    run_git(client.project, "merge", "-q", "x")
    ended = client.ask("workspace_update", id=made["id"], status="merged")
    assert ended == {"success": True, "merge_commit": run_git(client.project, "rev-parse", "HEAD")}
    assert not Path(made["path"]).exists()


def test_a_claim_parallel_to_another_returns_its_worktree(client: Client):
    _, (one, two) = client.plan(auto_create_workspaces=True)
    agent = client.ask("agent_register", name="Ada", runtime="codex")["id"]

    client.ask("task_claim", task_id=one, agent_id=agent)
    claimed = client.ask("task_claim", task_id=two, agent_id=agent)

    assert {"success", "claim_epoch", "workspace_id", "workspace_path", "branch"} <= claimed.keys()
    assert run_git(Path(claimed["workspace_path"]), "branch", "--show-current") == claimed["branch"]


def test_task_assign_workspace_assigns_a_task(client: Client):
    id, (one, _) = client.plan()
    workspace = client.ask("workspace_create", workflow_id=id, path="/elsewhere", branch="y")

    assert workspace.keys() == {"id", "warning"}
    answer = client.ask("task_assign_workspace", task_id=one, workspace_id=workspace["id"])
    assert answer == {"success": True}
    # Its branch does not exist, which a check of any other workspace would mention.
    client.ask("workspace_update", id=workspace["id"], status="abandoned")


def test_repository_tools_return_the_documented_fields(client: Client):
    path = str(client.project)

    registered = client.ask("repository_register", path=path, name="shop")

    assert registered.keys() == {"id"}
    assert client.ask("repository_get", path=path).keys() == REPOSITORY
    assert client.ask("repository_get", path="/nowhere") == {"result": None}
    listed = client.ask("repository_list", limit=1, offset=0)
    assert listed.keys() == {"repositories", "total"}
    assert listed["repositories"][0].keys() == REPOSITORY


def test_workspace_errors_have_a_code_and_a_suggestion(client: Client):
    id, _ = client.plan()

    error = client.error("workspace_create", workflow_id=id, path="/etc/x", branch="z", create=True)

    assert error["code"] == "PATH_OUTSIDE_PROJECT"
    assert error.keys() >= {"code", "message", "recoverable", "suggestion"}
    assert client.error("workspace_update", id="ws_no")["code"] == "WORKSPACE_NOT_FOUND"
