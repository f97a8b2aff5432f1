"""`deepwork do` with the real Claude Code and a scripted model: from the sentence to the merged branch."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clients.machine import Machine
from clients.model_endpoint import ModelEndpoint
from clients.runner_machine import SECONDS_FOR_A_RUN, RunnerMachine

pytestmark = pytest.mark.timeout(900)
WISH = "Let there be tea and cake"
BRANCH = "deepwork/integration/there-tea-cake"
DONE = {"say": "Done."}


def plan_task(name: str, *after: str) -> dict[str, Any]:
    return {
        "name": name,
        "description": f"Goal: {name}.\nDone when: {name}.txt is there.",
        "files_likely_affected": [f"{name}.txt"],
        "depends_on": [*after],
    }


PLAN = {"summary": "Tea, then cake.", "tasks": [plan_task("tea"), plan_task("cake", "tea")]}


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[ModelEndpoint]:
    with ModelEndpoint([], tmp_path / "ledger.jsonl") as endpoint:
        yield endpoint


def test_claude_code_plans_works_and_reviews_until_the_branch_is_merged(
    machine: Machine, endpoint: ModelEndpoint
):
    RunnerMachine(machine, endpoint, "claude", allow=["Bash"])
    machine.write("Makefile", "test:\n\t@! grep -n TODO *.txt\n")
    machine.run("git", "add", "-A")
    machine.run("git", "commit", "-qm", "Add tests")
    endpoint.play(
        {
            "shell": "touch sneaked.txt"
        },  # a planner may change nothing: it is refused, although the profile allows it
        {"mcp": "workflow_set_plan", "input": {"plan": {"summary": "s", "tasks": [{"name": "tea"}]}}},
        {"mcp": "workflow_set_plan", "input": {"plan": PLAN}},
        {"say": "Planned."},
        {"shell": "echo TODO > tea.txt"},
        DONE,  # which is false
        {"shell": "echo Darjeeling > tea.txt"},
        DONE,
        {"shell": "echo Sacher > cake.txt"},
        DONE,
        {"say": 'I would take it.\n{"findings": []}'},
    )

    done = subprocess.run(
        ["deepwork", "do", WISH, "--yes", "--trust", "--agent", "worker", "--agents", "1", "--json"],
        cwd=machine.project, env=machine.environment, text=True, stdin=subprocess.DEVNULL, capture_output=True,
        timeout=SECONDS_FOR_A_RUN, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    [report] = [line for line in map(json.loads, done.stdout.splitlines()) if line["type"] == "report"]
    tasks = {task["name"]: task for task in report["tasks"]}
    assert (report["state"], report["not_done"]) == ("landed", [])
    assert [len(tasks[name].get("failed", ())) for name in ("tea", "cake")] == [1, 0]
    refusals = [text for text in endpoint.conversations if "The plan is not good enough yet" in text]
    assert refusals
    assert machine.run("git", "ls-tree", "--name-only", BRANCH, "sneaked.txt") == ""
    assert (
        machine.run("git", "log", "--all", "--format=%h", "--", "sneaked.txt") == ""
    )  # nor on a rescue branch
    machine.run("git", "merge", "-q", BRANCH)
    assert (machine.project / "tea.txt").read_text() == "Darjeeling\n"
    assert (machine.project / "cake.txt").read_text() == "Sacher\n"


@pytest.mark.parametrize("vendor", ["codex", "gemini", "opencode"])
def test_every_client_can_plan_and_review_without_changing_files(
    vendor: str, machine: Machine, endpoint: ModelEndpoint
):
    RunnerMachine(machine, endpoint, vendor)
    plan = {"summary": "Tea.", "tasks": [plan_task("tea")]}
    hand_over = {"mcp": "workflow_set_plan", "input": {"plan": plan}}
    say = {"say": json.dumps(plan)}  # Gemini CLI takes no server from the runner but in folders of root
    planning = [say] if vendor == "gemini" else [hand_over, {"say": "Planned."}]
    endpoint.play(
        {"shell": "touch sneaked.txt"},
        *planning,
        {"shell": "echo Assam > tea.txt"},
        DONE,
        {"say": '{"findings": []}'},
    )

    done = subprocess.run(
        ["deepwork", "do", WISH, "--yes", "--no-checks", "--agent", "worker", "--agents", "1", "--json"],
        cwd=machine.project, env=machine.environment, text=True, stdin=subprocess.DEVNULL, capture_output=True,
        timeout=SECONDS_FOR_A_RUN, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert machine.run("git", "show", f"{BRANCH}:tea.txt") == "Assam\n"
    assert machine.run("git", "log", "--all", "--format=%h", "--", "sneaked.txt") == ""
