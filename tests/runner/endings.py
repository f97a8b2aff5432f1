"""Plans for scripted agents, runs of them, and what became of their tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import patience
from runner.fake_streams import Used
from runner.person_checkout import list_differences
from runner.played_machine import is_alive
from runner.run_invariants import list_attempts
from runner.run_project import RunProject
from runner.scripted import Process, Steps, list_possible_sums
from workspaces.make import run_git

PATIENCE_SECONDS = 120
LIMIT_LOG = (
    'timestamp=2026-11-17T20:38:54.682Z level=ERROR run=9ccea38c message="stream error" providerID=local'
    ' error.error="AI_APICallError: Rate limit reached for requests"'
)
"""What opencode writes to its log each time that it meets a limit; its stream says nothing."""


def write(name: str) -> dict[str, Any]:
    return {"do": "append", "file": f"{name}.txt", "line": name}


def finish(name: str) -> Steps:
    return [write(name), {"do": "exit", "text": f"Wrote {name}.txt."}]


def write_profiles(project: RunProject, text: str) -> None:
    file = project.home / ".config" / "deepwork" / "agents.yml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o600)


def check_nothing_is_left(project: RunProject) -> None:
    wait_until(lambda: not list_living(project), "the end of all agents")
    assert list_differences(project.fingerprint, project.folder) == []


def list_living(project: RunProject) -> list[Process]:
    """The agents that run, or whose shim does."""
    return [
        each
        for each in project.agents.read_ledger()
        if is_alive(each.identity) or (each.parent[0] > 1 and is_alive(each.parent))
    ]


def wait_until(is_true: Callable[[], object], what: str, seconds: float = PATIENCE_SECONDS) -> None:
    patience.wait_until(is_true, what, seconds)


def plan(project: RunProject, name: str, *starts: Steps, **task: Any) -> None:
    """Plan one task, and what its agents do one after the other."""
    project.set_plan([{"name": name, "description": "", **task}], {name: list(starts)})


class Ended:
    """A run that has ended, and its tasks."""

    def __init__(self, project: RunProject, *options: str) -> None:
        self.project = project
        self.result = project.run(*options)
        self.code = self.result.code
        self.output = self.result.out + self.result.err

    def get_status(self, name: str) -> str:
        [task] = [task for task in self.project.list_tasks() if task["name"] == name]
        return str(task["status"])

    def list_attempts(self, name: str) -> list[dict[str, Any]]:
        return [each for each in list_attempts(self.project) if each["task_id"] == self.project.ids[name]]

    def list_stages(self, name: str) -> list[str]:
        return [each["stage"] for each in self.list_attempts(name)]

    def list_processes(self, name: str) -> list[Process]:
        return [each for each in self.project.agents.read_ledger() if each.name == name]

    def read_file(self, name: str, file: str = "") -> str:
        """Return a file from the branch of a task; by default the one that the task is about."""
        branch = self.list_attempts(name)[-1]["branch"]
        return run_git(self.project.folder, "show", f"{branch}:{file or f'{name}.txt'}")

    def check_done(self, name: str, stages: list[str] | None = None) -> None:
        """Check that a task is done, its work is committed, and its spend is what was reported."""
        assert self.get_status(name) == "completed", self.output
        assert self.list_stages(name) == (stages or ["done"])
        assert self.read_file(name) == name
        self.check_spend(name)

    def check_spend(self, name: str) -> None:
        """Check that what is stored for each attempt is what its agents reported."""
        for attempt in self.list_attempts(name):
            own = [each for each in self.list_processes(name) if each.start["attempt"] == attempt["id"]]
            spent = Used(
                *(attempt[key] for key in ("input_tokens", "cached_tokens", "output_tokens", "usd_micros"))
            )
            assert spent in list_possible_sums(own)
