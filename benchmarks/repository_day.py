"""Measures a day in a repository of 5,000 files: tasks with worktrees, hooks, a check and landing, and the same by hand.

A task by hand: a worktree, an edit and its commit, a look at the status, the check, a merge, the check again, and the
worktree is removed. With deepwork an agent claims the task, its client calls the hook after each of its calls, it
leaves a checkpoint and completes the task, which runs the check; the work lands, and the workspace is closed. Both
write the same files. The agent's own time is left out: it is the same.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks.clients import PYTHON, SERVE, StdioClient
from benchmarks.projects import claim, complete, create_workflow, list_tasks, register_agent
from benchmarks.timing import Effort, Samples
from benchmarks.tracking import create_repository

FILES = 5_000
EDITED = 5
HAND, DAY = "a task by hand", "a task with deepwork"
CLAIM, HOOKS, CHECKPOINT, COMPLETION, LANDING, CLOSING = PARTS = (
    "claim with a worktree",
    "hooks, ten calls",
    "checkpoint",
    "completion with a check",
    "landing with a check",
    "closing the workspace",
)
COMMIT = "edit and commit"
TOOL = "mcp__deepwork__"
CHECK = ("sh", "-c", "! grep -rqE '^(<<<<<<<|>>>>>>>) ' src")
_CHECKS = f"checks:\n  clean: {{run: {json.dumps(CHECK)}, needs: ['**/*.py']}}\n"


def measure_day(effort: Effort) -> Samples:
    """Measure tasks one by one, in turns with the same by hand; the first of each warms up."""
    folder = effort.make_folder("day")
    variables = build_variables(folder)
    files = min(FILES, 250 * effort.calls)
    hand = Hand(create_project(folder / "hand", files), variables)
    day = Day(create_project(folder / "deepwork", files), variables)
    tasks = min(5, 1 + max(1, effort.rounds // 3))
    try:
        day.create_plan(tasks)
        took: Samples = {}
        for number in range(tasks):
            rows = {HAND: hand.do(number)} | day.do(number)
            for row, seconds in rows.items() if number else ():
                took.setdefault(row, []).append(seconds)
        return took
    finally:
        day.close()


def build_variables(folder: Path) -> dict[str, str]:
    """Give git and deepwork a home of their own."""
    home = folder / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n")
    config = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config")}
    return {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ} | config


def create_project(root: Path, files: int) -> Path:
    (root / ".deepwork").mkdir(parents=True)
    (root / ".deepwork/checks.yml").write_text(_CHECKS)
    create_repository(root, files, with_checks=True)
    return root


def run(root: Path, variables: Mapping[str, str], *words: str, given: str = "") -> str:
    done = subprocess.run(
        words, cwd=root, env=dict(variables), input=given, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(words)}:\n{done.stdout}{done.stderr}"
    return done.stdout


def edit_and_commit(tree: Path, variables: Mapping[str, str], number: int) -> None:
    """Do what the agent does itself: edit some files, and commit them."""
    for each in range(EDITED):
        (tree / f"src/part_0/area_{each}/module_{number + 1}.py").write_text(f"task {number}\n" * 40)
    run(tree, variables, "git", "add", "--all")
    run(tree, variables, "git", "commit", "-q", "-m", f"Task {number}")


class Hand:
    """A person who does tasks with git alone."""

    def __init__(self, root: Path, variables: Mapping[str, str]) -> None:
        self._root, self._variables = root, variables

    def do(self, number: int) -> float:
        """Do a task; return the seconds it took."""
        tree, branch = self._root.parent / f"by-hand-{number}", f"task-{number}"
        began = time.perf_counter()
        self._run(self._root, "git", "worktree", "add", "-q", "-b", branch, str(tree))
        edit_and_commit(tree, self._variables, number)
        self._run(tree, "git", "status", "--porcelain")
        self._run(tree, *CHECK)
        self._run(self._root, "git", "merge", "-q", "--no-ff", "-m", f"Land {branch}", branch)
        self._run(self._root, *CHECK)
        self._run(self._root, "git", "worktree", "remove", str(tree))
        return time.perf_counter() - began

    def _run(self, tree: Path, *words: str) -> None:
        run(tree, self._variables, *words)


class Day:
    """An agent and its client, and a person who lands the work."""

    def __init__(self, root: Path, variables: Mapping[str, str]) -> None:
        self._root, self._variables = root, variables
        self._run_deepwork("trust", "--yes")
        self._server = StdioClient(*SERVE, ".", folder=root, variables=variables)
        self._agent = register_agent(self._server)
        self._tasks: list[str] = []

    def create_plan(self, size: int) -> None:
        workflow = create_workflow(self._server, auto_create_workspaces=True)
        tasks = [
            {"name": f"task {number}", "description": "Edit.", "sequence": 1, "checks": ["clean"]}
            for number in range(size)
        ]
        plan = {"summary": "A day", "tasks": tasks}
        self._server.call("workflow_set_plan", {"id": workflow, "plan": plan})
        self._tasks, self._landed = list_tasks(self._server, workflow), f"deepwork/integration/{workflow}"

    def do(self, number: int) -> dict[str, float]:
        """Do a task; return the seconds of each part and of all."""
        took = dict.fromkeys((*PARTS, COMMIT), 0.0)

        def act(
            part: str,
            work: Callable[[], Any],
            tool: str = "",
            given: Mapping[str, Any] = MappingProxyType({}),
        ) -> Any:
            """Do a part; if it is a call of the agent, its client then calls the hook."""
            began = time.perf_counter()
            answer = work()
            took[part] += time.perf_counter() - began
            if tool:
                event = {"tool_name": tool, "tool_input": dict(given), "tool_response": answer}
                act(HOOKS, lambda: self._call_hook("tool-use", **event))
            return answer

        task = self._tasks[number]
        own = {"task_id": task, "agent_id": self._agent}
        note = own | {"type": "progress", "summary": "All files are edited."}
        act(HOOKS, lambda: self._call_hook("session-start", source="startup"))
        claimed = act(CLAIM, lambda: claim(self._server, task, self._agent), f"{TOOL}task_claim", own)
        tree = Path(claimed["workspace_path"])
        for _ in range(4):
            act(COMMIT, lambda: None, "Edit", {"file_path": str(tree / "src/part_0/area_0/module_1.py")})
        act(COMMIT, lambda: edit_and_commit(tree, self._variables, number), "Bash", {"command": "git commit"})
        act(CHECKPOINT, lambda: self._server.call("checkpoint_add", note), f"{TOOL}checkpoint_add", note)
        act(COMPLETION, lambda: complete(self._server, task, self._agent), f"{TOOL}task_update_status", own)
        act(HOOKS, lambda: self._call_hook("stop"))
        act(LANDING, lambda: self._land(task))
        act(CLOSING, lambda: self._close_workspace(claimed["workspace_id"]))
        return {part: took[part] for part in PARTS} | {DAY: sum(took.values())}

    def _land(self, task: str) -> None:
        """Land the task on the integration branch, and take that into `main`, which is checked out."""
        landed = self._run_deepwork("land", task, "--json")
        assert [each["status"] for each in json.loads(landed)["landings"]] == ["landed"], landed
        run(self._root, self._variables, "git", "merge", "-q", "--ff-only", self._landed)

    def _close_workspace(self, id: str) -> None:
        self._server.call("workspace_update", {"id": id, "status": "merged"})

    def _call_hook(self, event: str, **given: Any) -> None:
        words = (event, "--client", "claude-code")
        text = json.dumps({"session_id": "day", "cwd": str(self._root), **given})
        self._run_deepwork("hook", *words, given=text)

    def _run_deepwork(self, *words: str, given: str = "") -> str:
        return run(self._root, self._variables, *PYTHON, "-m", "deepwork", *words, given=given)

    def close(self) -> None:
        self._server.close()
