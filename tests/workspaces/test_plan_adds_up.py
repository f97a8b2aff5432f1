"""Agents on separate servers work on a plan in three layers, each in its own worktree: the work adds up."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from protocol.stdio_server import StdioServer
from workspaces.make import create_repository, run_git

FIRST = [f"part {number}" for number in range(7)]
SECOND = {
    "join 0": ["part 0", "part 1"],
    "join 1": ["part 2", "part 3"],
    "join 2": ["part 4", "part 5"],
    "join 3": ["part 5", "part 6"],
}
LAST = "finish"
COMMITTED = {*FIRST[::2], "join 0", LAST}
"""The tasks whose agent commits; deepwork commits the work of the others."""
AGENTS = 4


class Agent:
    """A scripted agent with its own server process: it works until the plan is complete."""

    def __init__(self, project: Path, location: str, name: str) -> None:
        self._server = StdioServer(project, "--db", location)
        self.name = name
        self.claims: dict[str, dict[str, Any]] = {}
        self.answers: dict[str, dict[str, Any]] = {}

    def call(self, tool: str, **arguments: Any) -> Any:
        result = self._server.request("tools/call", {"name": tool, "arguments": arguments})["result"]
        return None if result.get("isError") else result["structuredContent"]

    def work(self, workflow_id: str, same_line: set[str]) -> None:
        with self._server:
            me = self.call("agent_register", name=self.name, runtime="custom")["id"]
            while True:
                offer = self.call("workflow_next_tasks", workflow_id=workflow_id)
                if offer["all_complete"]:
                    return
                for task in offer["tasks"]:
                    claim = self.call("task_claim", task_id=task["id"], agent_id=me)
                    if claim and claim["success"]:
                        self._do(task, claim, me, same_line)
                threading.Event().wait(0.05)

    def _do(self, task: dict[str, Any], claim: dict[str, Any], me: str, same_line: set[str]) -> None:
        name, tree = task["name"], Path(claim["workspace_path"])
        self.claims[name] = claim
        (tree / f"{name}.md").write_text(f"By {self.name}.\n")
        if name in same_line:
            (tree / "a.txt").write_text(f"{name}\n")
        if name in COMMITTED:
            run_git(tree, "add", "-A")
            run_git(tree, "commit", "-qm", name)
        report = {"status": "completed", "outcome": "Written.", "agent_id": me}
        self.answers[name] = self.call("task_update_status", id=task["id"], **report)


def run_plan(
    project: Path, location: str, *, same_line: set[str]
) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    """Let the agents work on the plan; return the claims and the answers to the reports, by task."""
    agents = [Agent(project, location, f"agent {number}") for number in range(AGENTS)]
    with StdioServer(project, "--db", location) as planner:
        creator = Agent.__new__(Agent)
        creator._server = planner
        created = {"name": "Shop", "source_type": "prompt", "source_content": "Build the shop."}
        id = creator.call(
            "workflow_create", **created, max_parallel_tasks=AGENTS, auto_create_workspaces=True
        )["id"]
        tasks = [
            *({"name": name, "depends_on": []} for name in FIRST),
            *({"name": name, "depends_on": needed} for name, needed in SECOND.items()),
            {"name": LAST, "depends_on": [*FIRST, *SECOND]},
        ]
        plan = {"summary": "In three layers.", "tasks": tasks, "commit": True}
        creator.call("workflow_set_plan", id=id, plan=plan)
    with ThreadPoolExecutor(AGENTS) as pool:
        for done in [pool.submit(agent.work, id, same_line) for agent in agents]:
            done.result()
    claims = {name: claim for agent in agents for name, claim in agent.claims.items()}
    return claims, {name: answer for agent in agents for name, answer in agent.answers.items()}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return create_repository(tmp_path / "shop")


def list_files(project: Path, branch: str) -> set[str]:
    return set(run_git(project, "ls-tree", "-r", "--name-only", branch).splitlines())


def test_the_branch_of_the_last_task_contains_every_change(project: Path, location: str):
    claims, answers = run_plan(project, location, same_line=set())

    assert set(claims) == {*FIRST, *SECOND, LAST}
    assert {"warning", "unmerged"}.isdisjoint(key for claim in claims.values() for key in claim)
    assert len({claim["workspace_path"] for claim in claims.values()}) == 12
    assert {name for name, answer in answers.items() if "commit" not in answer} == COMMITTED
    names = {f"{name}.md" for name in claims}
    assert list_files(project, claims[LAST]["branch"]) >= names
    assert claims["join 0"]["builds_on"] == [claims[name]["branch"] for name in SECOND["join 0"]]
    assert run_git(project, "status", "--porcelain") == ""
    assert list_files(project, "main").isdisjoint(names)
    run_git(project, "merge", "-q", "--ff-only", claims[LAST]["branch"])
    assert {path.name for path in project.glob("*.md")} == names


def test_the_claim_that_joins_conflicting_work_reports_the_conflict(project: Path, location: str):
    claims, _ = run_plan(project, location, same_line={"part 0", "part 1"})

    one, other = (claims[name]["branch"] for name in ("part 0", "part 1"))
    joined = claims["join 0"]
    assert (joined["builds_on"], joined["unmerged"]) == ([one], [other])
    assert f"{other} conflicts with {one} in a.txt." in joined["warning"]
    assert f"`git merge {other}` in {joined['workspace_path']}" in joined["warning"]
    assert all("warning" not in claims[name] for name in ("join 1", "join 2", "join 3"))
    assert claims[LAST]["unmerged"] == [other]  # nobody merged it meanwhile
    everything = {f"{name}.md" for name in claims if name != "part 1"}
    assert list_files(project, claims[LAST]["branch"]) >= everything
