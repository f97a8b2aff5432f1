"""Every plan tool through a real server process: answers have the specified shape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from protocol.stdio_server import StdioServer

WORKFLOW = {
    "id",
    "name",
    "source_type",
    "source_content",
    "status",
    "max_parallel_tasks",
    "created_at",
    "updated_at",
}
TASK = {
    "id",
    "workflow_id",
    "name",
    "description",
    "status",
    "sequence",
    "context",
    "attempts",
    "created_at",
    "updated_at",
}
CHECKPOINT = {"id", "sequence", "type", "summary", "files_changed", "created_at"}


class Client:
    """A client of one server, with a plan of its own for every test."""

    def __init__(self, wire: StdioServer) -> None:
        self._wire = wire

    def ask(self, tool: str, **arguments: Any) -> Any:
        """A tool's answer, which is the same in both of its forms."""
        answer = self._wire.request("tools/call", {"name": tool, "arguments": arguments})["result"]
        assert not answer.get("isError"), answer
        return answer["structuredContent"]

    def error(self, tool: str, **arguments: Any) -> Any:
        return self._wire.call(tool, arguments)

    def plan(self) -> tuple[str, dict[str, str]]:
        """A workflow of four tasks; its id and theirs."""
        id = self.ask(
            "workflow_create", name="w", source_type="prompt", source_content="x", max_parallel_tasks=3
        )["id"]
        tasks = [
            {"name": "a", "description": "Do a.", "sequence": 1, "parallel_group": "g"},
            {"name": "b", "description": "Do b.", "sequence": 1, "parallel_group": "g"},
            {"name": "c", "description": "Do c.", "sequence": 2, "depends_on": ["a"]},
            {"name": "d", "description": "Do d.", "sequence": 3},
        ]
        self.ask("workflow_set_plan", id=id, plan={"summary": "s", "approach": "a", "tasks": tasks})
        lines = self.ask("workflow_get", id=id, include_tasks=True)["tasks"]
        return id, {line["name"]: line["id"] for line in lines}

    def agent(self) -> str:
        id: str = self.ask("agent_register", name="Ada", runtime="codex")["id"]
        return id


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with StdioServer(tmp_path_factory.mktemp("project")) as wire:
        client = Client(wire)
        # With a single agent, calls without `agent_id` would act as that agent: with two, none does.
        client.agent()
        client.agent()
        yield client


def test_workflow_create_returns_the_documented_fields(client: Client):
    answer = client.ask("workflow_create", name="w", source_type="jira", source_content="x", source_ref="J-1")

    assert answer == {"id": answer["id"], "name": "w", "status": "planning", "max_parallel_tasks": 1}


def test_workflow_get_returns_the_documented_fields(client: Client):
    id, _ = client.plan()

    answer = client.ask(
        "workflow_get", id=id, include_tasks=True, include_task_summaries=False, include_history=True
    )

    assert set(answer) >= WORKFLOW | {"tasks", "tasks_total", "history", "plan_summary", "plan"}
    assert all(set(task) >= TASK for task in answer["tasks"])
    assert isinstance(answer["auto_create_workspaces"], bool)


def test_workflow_list_returns_the_documented_fields(client: Client):
    id, _ = client.plan()

    answer = client.ask("workflow_list", status=["ready"], limit=200)

    assert set(answer) == {"workflows", "total"}
    [line] = [line for line in answer["workflows"] if line["id"] == id]
    assert set(line) == {"id", "name", "status", "source_type", "created_at", "updated_at"}


def test_workflow_set_plan_returns_the_documented_fields(client: Client):
    id = client.ask("workflow_create", name="w", source_type="prompt", source_content="x")["id"]

    answer = client.ask("workflow_set_plan", id=id, plan={"summary": "s", "tasks": [{"name": "a"}]})

    assert answer == {"workflow_id": id, "tasks_created": 1, "parallelizable_groups": 0, "status": "ready"}


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("workflow_update_status", {"status": "paused", "reason": "r"}),
        ("workflow_set_parallelism", {"max_parallel_tasks": 2, "auto_create_workspaces": False}),
    ],
)
def test_changing_a_workflow_returns_success(client: Client, tool: str, arguments: dict[str, Any]):
    id, _ = client.plan()

    assert client.ask(tool, id=id, **arguments) == {"success": True}


def test_workflow_add_task_and_remove_task_return_the_documented_fields(client: Client):
    id, tasks = client.plan()

    added = client.ask("workflow_add_task", workflow_id=id, task={"name": "e"}, after=["c"])
    removed = client.ask("workflow_remove_task", workflow_id=id, task_id=tasks["c"])

    assert set(added) == {"success", "task_id"}
    assert removed == {"success": True, "rewired": [added["task_id"]]}


def test_workflow_replan_returns_the_documented_fields(client: Client):
    id, _ = client.plan()

    answer = client.ask("workflow_replan", workflow_id=id, reason="r", tasks=[{"name": "z"}])

    assert answer == {"success": True, "tasks_created": 1, "tasks_removed": 4, "tasks_kept": 0}


def test_workflow_search_returns_the_documented_fields(client: Client):
    _, tasks = client.plan()
    client.ask("checkpoint_add", task_id=tasks["a"], type="decision", summary="Took the flux capacitor.")

    answer = client.ask("workflow_search", query="flux capac")

    assert set(answer) == {"results", "total"}
    assert set(answer["results"][0]) == {"kind", "id", "workflow_id", "task_id", "name", "snippet"}


@pytest.mark.parametrize("format", ["json", "markdown"])
def test_workflow_get_summary_returns_the_documented_fields(client: Client, format: str):
    id, _ = client.plan()

    answer = client.ask("workflow_get_summary", id=id, format=format)

    assert set(answer) == {"summary", "token_estimate"}
    assert isinstance(answer["summary"], dict if format == "json" else str)


def test_workflow_next_tasks_returns_the_documented_fields(client: Client):
    id, tasks = client.plan()

    answer = client.ask("workflow_next_tasks", workflow_id=id, include_failed=False)

    assert set(answer) >= {"tasks", "max_parallel", "recommended_count", "workflow_status", "all_complete"}
    wanted = {"id", "name", "description", "can_parallelize", "parallel_with", "dependencies_completed"}
    assert all(set(task) >= wanted for task in answer["tasks"])
    assert answer["tasks"][0]["parallel_with"] == [tasks["b"]]


def test_workflow_progress_returns_the_documented_fields(client: Client):
    id, _ = client.plan()

    answer = client.ask("workflow_progress", workflow_id=id)

    assert set(answer) >= {
        "total_tasks", "by_status", "completed_sequence", "current_sequence", "blocked_tasks",
        "parallel_groups", "estimated_remaining",
    }  # fmt: skip
    assert set(answer["blocked_tasks"][0]) == {"id", "name", "blocked_by"}
    assert answer["parallel_groups"] == [{"group_id": "g", "task_count": 2, "completed": 0}]


def test_task_get_returns_the_documented_fields(client: Client):
    _, tasks = client.plan()
    client.ask("checkpoint_add", task_id=tasks["c"], type="plan", summary="s", files_changed=["x"])

    answer = client.ask("task_get", id=tasks["c"], include_checkpoints=True, checkpoint_limit=1)

    assert set(answer) == TASK | {"blocked", "depends_on", "checkpoints", "checkpoints_total"}
    assert set(answer["checkpoints"][0]) == CHECKPOINT


def test_every_call_in_the_life_of_a_task_returns_the_documented_fields(client: Client):
    id, tasks = client.plan()
    agent, task = client.agent(), tasks["a"]

    claim = client.ask("task_claim", task_id=task, agent_id=agent)
    assert set(claim) == {"success", "claim_epoch", "lease_expires_at", "status", "next_step"}
    held = client.ask("task_claim", task_id=task, agent_id=client.agent())
    assert set(held) == {"success", "reason", "message", "already_claimed_by"}
    name = {"agent_id": agent, "claim_epoch": claim["claim_epoch"]}
    assert client.ask(
        "task_set_plan", id=task, plan={"approach": "a", "steps": ["s"]}, context={"k": 1}, **name
    ) == {"success": True}
    assert client.ask("task_update_status", id=task, status="in_progress", **name) == {"success": True}
    replanned = client.ask(
        "task_replan", id=task, reason="r", new_plan={"approach": "b", "steps": []}, **name
    )
    assert set(replanned) == {"success", "checkpoint_id"}
    noted = client.ask(
        "checkpoint_add", task_id=task, type="progress", summary="Half.", detail={"x": 1}, **name
    )
    assert noted == {"id": noted["id"], "sequence": 3}
    done = client.ask(
        "task_update_status",
        id=task,
        status="completed",
        outcome="Done.",
        outcome_detail={"ok": True},
        **name,
    )
    assert done["success"]
    assert client.ask("workflow_get", id=id)["status"] == "in_progress"


def test_checkpoint_list_returns_the_documented_fields(client: Client):
    _, tasks = client.plan()
    for type in ("progress", "error"):
        client.ask("checkpoint_add", task_id=tasks["a"], type=type, summary="s", detail={"x": 1})

    answer = client.ask("checkpoint_list", task_id=tasks["a"], type=["error"], since_sequence=1, limit=5)

    assert set(answer) == {"checkpoints", "total"}
    assert [set(each) for each in answer["checkpoints"]] == [CHECKPOINT | {"detail"}]


def test_task_load_context_returns_the_documented_fields(client: Client):
    _, tasks = client.plan()

    answer = client.ask(
        "task_load_context", task_id=tasks["c"], include={"prior_task_full": True}, max_tokens=4000
    )

    assert set(answer) >= {"workflow", "current_task", "prior_tasks", "dependency_outcomes", "token_estimate"}
    assert set(answer["workflow"]) >= {
        "id", "name", "source_type", "source_summary", "plan_summary", "status", "max_parallel_tasks",
    }  # fmt: skip
    assert set(answer["current_task"]) >= {"id", "name", "description", "status"}


def test_task_check_dependencies_returns_the_documented_fields(client: Client):
    _, tasks = client.plan()
    client.ask("task_update_status", id=tasks["a"], status="completed", outcome="o")

    done, waiting = (client.ask("task_check_dependencies", task_id=tasks[name]) for name in ("c", "d"))

    assert set(done) == {"satisfied", "pending", "completed", "pending_total", "completed_total"}
    assert done["completed"] == [{"id": tasks["a"], "name": "a", "outcome": "o"}]
    assert waiting["pending"] == [{"id": tasks["c"], "name": "c", "status": "pending"}]


def test_task_release_and_get_available_return_the_documented_fields(client: Client):
    id, tasks = client.plan()
    agent = client.agent()
    client.ask("task_claim", task_id=tasks["a"], agent_id=agent)

    assert client.ask("task_release", task_id=tasks["a"], agent_id=agent, reason="r") == {"success": True}
    answer = client.ask("task_get_available", agent_id=agent, workflow_id=id, limit=1)

    assert set(answer) == {"tasks", "total_available"}
    assert set(answer["tasks"][0]) >= {"id", "workflow_id", "name", "description", "status", "sequence"}


def test_errors_have_a_code_and_a_suggestion(client: Client):
    _, tasks = client.plan()
    agent = client.agent()

    for tool, arguments, code, can_be_mended in (
        ("workflow_get", {"id": "wf_0"}, "WORKFLOW_NOT_FOUND", False),
        ("task_get", {"id": "tk_0"}, "TASK_NOT_FOUND", False),
        ("task_claim", {"task_id": tasks["a"], "agent_id": "ag_0"}, "AGENT_NOT_FOUND", False),
        ("task_update_status", {"id": tasks["c"], "status": "in_progress"}, "TASK_BLOCKED", True),
        ("task_update_status", {"id": tasks["b"], "status": "completed"}, "MISSING_OUTCOME", True),
        ("task_update_status", {"id": tasks["b"], "status": "paused"}, "INVALID_TRANSITION", False),
        ("task_release", {"task_id": tasks["b"], "agent_id": agent}, "NOT_CLAIMED", False),
        ("workflow_next_tasks", {"workflow_id": "wf_0", "limit": 0}, "INVALID_INPUT", True),
    ):  # fmt: skip
        said = client.error(tool, **arguments)
        assert set(said) == {"code", "message", "recoverable", "suggestion"}
        assert (said["code"], said["recoverable"]) == (code, can_be_mended), said
        assert said["suggestion"]
