"""The protocols of orchestrator and subagents as the seed writes them, with a real process for each of them."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import connect

import quick
from http_tests.http_server import HttpServer
from jobs.tool_client import ToolClient
from protocol.stdio_server import StdioServer
from workspaces.make import commit, run_git

AGENTS = ("ada", "bob", "cleo", "dan")
FILES = 5


@pytest.fixture
def root(project: Path, location: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose processes all share one store, of each kind."""
    monkeypatch.setenv("DEEPWORK_DATABASE_URL", location)
    for agent in AGENTS:
        (project / agent).mkdir()
        (project / agent / "old.py").write_text(f"{agent}\n")
    commit(project, "a folder for everybody")
    return project


@pytest.fixture
def crew(root: Path) -> Iterator[tuple[ToolClient, dict[str, ToolClient]]]:
    """An orchestrator and four subagents: five MCP clients, each with a server process of its own."""
    # Not in the threads: the first of these starts a process that all of them need.
    servers = [
        quick.build_transport(root, "--toolsets", "tracking", env=dict(os.environ))
        for _ in range(1 + len(AGENTS))
    ]
    with ThreadPoolExecutor(5) as starting, ExitStack() as open_clients:
        made = list(starting.map(lambda server: ToolClient(server, timeout=100), servers))
        for each in made:
            open_clients.enter_context(each)
        yield made[0], dict(zip(AGENTS, made[1:], strict=True))


def run_subagent(talk: ToolClient, agent: str, where: dict[str, str], tree: Path, **given: Any) -> Any:
    """Start, work, log, complete: what the seed asks of a subagent."""
    id = talk.call(
        "start_task", **where, caller_type="subagent", agent_name=agent, name=f"work of {agent}", goal="Do it.",
        **given,
    )["task_id"]  # fmt: skip
    for number in range(FILES):
        (tree / agent / f"new {number}.py").write_text(f"{agent} {number}\n")
        talk.call("log_milestone", task_id=id, message=f"file {number}", progress=20 * number)
    (tree / agent / "old.py").write_text("changed\n")
    talk.call("log_decision", task_id=id, category="other", question="q", chosen="c", reasoning="r")
    talk.call(
        "log_issue", task_id=id, type="other", description="d", resolution="r",
        requires_human_review=agent == "ada",
    )  # fmt: skip
    return talk.call("complete_task", task_id=id, status="success", outcome={"summary": "Done."})


def list_work_of(agent: str) -> dict[str, list[str]]:
    added = [f"{agent}/new {number}.py" for number in range(FILES)]
    return {"added": added, "modified": [f"{agent}/old.py"], "deleted": []}


def test_changes_of_four_subagents_are_attributed_in_one_tree_and_in_separate_trees(
    root: Path, crew: tuple[ToolClient, dict[str, ToolClient]], tmp_path_factory: pytest.TempPathFactory
):
    orchestrator, subagents = crew
    trees = {agent: tmp_path_factory.mktemp("trees") / agent for agent in AGENTS}
    for agent, tree in trees.items():
        run_git(root, "worktree", "add", "-q", "-b", agent, str(tree))
    id = orchestrator.call("start_workflow", name="Shop", objective="Sell.", profile="simple")["workflow_id"]

    def run(number: int, name: str, tree_of: dict[str, Path], **given: dict[str, Any]) -> dict[str, Any]:
        phase = orchestrator.call(
            "start_phase", workflow_id=id, number=number, name=name, is_parallel=True
        )["phase_id"]  # fmt: skip
        where = {"workflow_id": id, "phase_id": phase}
        with ThreadPoolExecutor(4) as at_work:
            running = {
                agent: at_work.submit(run_subagent, talk, agent, where, tree_of[agent], **given[agent])
                for agent, talk in subagents.items()
            }
            answers = {agent: each.result() for agent, each in running.items()}
        seen = orchestrator.call("get_context", workflow_id=id, include=["tasks", "blockers"])
        assert (seen["tasks_count"], seen["blockers_count"]) == (4 * number, number)
        assert {task["status"] for task in seen["tasks"]} == {"success"}
        ended = orchestrator.call("complete_phase", phase_id=phase, status="completed")
        assert ended["tasks"] == {"total": 4, "success": 4, "partial": 0, "failed": 0, "in_progress": 0}
        return answers

    shared = run(
        1, "In one tree", dict.fromkeys(AGENTS, root), **{agent: {"areas": [agent]} for agent in AGENTS}
    )
    apart = run(2, "In worktrees", trees, **{agent: {"cwd": str(trees[agent])} for agent in AGENTS})
    ended = orchestrator.call("complete_workflow", workflow_id=id, status="completed", summary="Sold.")

    for agent in AGENTS:
        assert shared[agent]["files_changed"] == list_work_of(agent)
        assert set(shared[agent]["attribution"].values()) <= {"area", "exclusive"}
        assert shared[agent]["verification"] == {"scope_match": True, "unexpected_files": [], "warnings": []}
        assert apart[agent]["files_changed"] == list_work_of(agent)
        assert set(apart[agent]["attribution"].values()) == {"exclusive"}
    metrics = ended["metrics"]
    assert (metrics["total_phases"], metrics["total_tasks"]) == (2, 8)
    assert metrics["files_changed"] == len(AGENTS) * (FILES + 1)
    assert (metrics["decisions"], metrics["issues"], metrics["blockers_open"]) == (8, 8, 2)


@pytest.mark.differs
def test_each_event_reaches_listeners_of_another_process_once(root: Path):
    with HttpServer(root) as served, StdioServer(root, "--toolsets", "tracking") as wire:
        headers = served.bearer
        with connect(
            f"ws://{served.host}/ws?since=0", additional_headers=headers, proxy=None, open_timeout=60
        ) as socket:
            id = wire.call("start_workflow", {"name": "n", "objective": "o"})["workflow_id"]
            of_phase = {"workflow_id": id, "number": 1, "name": "Design"}
            phase = wire.call("start_phase", of_phase)["phase_id"]
            wire.call("start_phase", of_phase)
            begin = {
                "workflow_id": id, "phase_id": phase, "caller_type": "orchestrator", "name": "n", "goal": "g",
            }  # fmt: skip
            task = wire.call("start_task", begin)["task_id"]
            for tool, given in (
                ("complete_task", {"task_id": task, "status": "success", "outcome": {"summary": "s"}}),
                ("complete_phase", {"phase_id": phase, "status": "completed"}),
                ("complete_workflow", {"workflow_id": id, "status": "completed", "summary": "s"}),
            ):
                wire.call(tool, given)
                assert wire.call(tool, given)["already_completed"] is True
            wire.call("start_workflow", {"name": "the last", "objective": "o"})

            heard = [json.loads(socket.recv(timeout=60)) for _ in range(9)]

    assert [event["type"] for event in heard] == [
        "workflow:created",  # start_workflow
        "phase:created",  # start_phase
        "workflow:updated",
        "task:created",  # start_task
        "task:updated",  # complete_task
        "phase:updated",  # complete_phase
        "workflow:updated",
        "workflow:updated",  # complete_workflow
        "workflow:created",
    ]
    assert [event["seq"] for event in heard] == list(range(1, 10))
    assert {event["workflow_id"] for event in heard[:-1]} == {id}
    assert heard[-1]["data"]["name"] == "the last"
    assert (heard[3]["data"]["id"], heard[4]["data"]["status"]) == (task, "success")
    assert heard[7]["data"]["status"] == "completed"


def test_a_task_whose_server_was_killed_is_completed_by_another_with_the_right_files(root: Path):
    with StdioServer(root, "--toolsets", "tracking") as wire:
        id = wire.call("start_workflow", {"name": "n", "objective": "o"})["workflow_id"]
        phase = wire.call("start_phase", {"workflow_id": id, "number": 1, "name": "Design"})["phase_id"]
        (root / "ada" / "before.py").write_text("of somebody else\n")
        begin = {
            "workflow_id": id, "phase_id": phase, "caller_type": "orchestrator", "name": "n", "goal": "g",
            "areas": ["ada"],
        }  # fmt: skip
        task = wire.call("start_task", begin)["task_id"]
        (root / "ada" / "while it lived.py").write_text("1\n")
        wire.stop(signal.SIGKILL)
    (root / "ada" / "old.py").write_text("changed\n")
    (root / "bob" / "old.py").unlink()

    with StdioServer(root, "--toolsets", "tracking") as wire:
        answer = wire.call(
            "complete_task", {"task_id": task, "status": "success", "outcome": {"summary": "s"}}
        )

    assert answer["files_changed"] == {
        "added": ["ada/while it lived.py"], "modified": ["ada/old.py"], "deleted": ["bob/old.py"],
    }  # fmt: skip
    assert answer["preexisting"] == ["ada/before.py"]
    assert answer["verification"]["unexpected_files"] == ["bob/old.py"]
