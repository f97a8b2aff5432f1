"""A project with a plan for scripted agents, and `deepwork run` as a command on it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from application import call_tool, make_app
from cli.run import CommandResult, run_deepwork
from deepwork.edge.server.application import Application
from deepwork.kernel.environment import get_user_folder
from isolation import GIT_CONFIG
from quick import PLAIN
from runner.person_checkout import create_checkout, take_fingerprint
from runner.scripted import ScriptedAgents, Steps

CONFIG = """\
run:
  resumes: 1000
"""


class RunProject:
    """A person's checkout, a store, agents with a script, and a plan that they work on."""

    def __init__(
        self, folder: Path, location: str | None = None, config: str = CONFIG, checks: str = ""
    ) -> None:
        self.folder = create_checkout(folder / "checkout", {".deepwork/checks.yml": checks} if checks else {})
        self._location = location
        (self.folder / ".deepwork").mkdir(exist_ok=True)
        (self.folder / ".deepwork" / "config.yml").write_text(config)
        self.fingerprint = take_fingerprint(self.folder)
        self.agents = ScriptedAgents(folder / "agents")
        self.home = folder / "home"
        self.home.mkdir()
        (self.home / ".gitconfig").write_text(GIT_CONFIG)
        self.app: Application = make_app(
            self.folder, location or str(self.folder / ".deepwork" / "deepwork.db")
        )
        self.plan = ""
        self.ids: dict[str, str] = {}

    def set_plan(
        self, tasks: Sequence[Mapping[str, Any]], script: Mapping[str, list[Steps]], **plan: Any
    ) -> None:
        """Create a plan with these tasks, and tell the agents what to do for each."""
        self.plan = call_tool(
            self.app, "workflow_create", name="Release", source_type="prompt", source_content="Ship it.",
            max_parallel_tasks=9, auto_create_workspaces=True,
        )["id"]  # fmt: skip
        given = {"summary": "s", "tasks": list(tasks), **plan}
        call_tool(self.app, "workflow_set_plan", id=self.plan, plan=given)
        self.ids = {task["name"]: task["id"] for task in self.list_tasks()}
        self.agents.write_script(script, {id: name for name, id in self.ids.items()})
        self._share_key()

    def _share_key(self) -> None:
        """Let the person of the commands be the one who made the store; the agents' profiles are their own."""
        folder = self.home / ".config" / "deepwork"
        folder.mkdir(parents=True, exist_ok=True)
        key = get_user_folder() / "store.key"
        if key.exists() and key.parent != folder:  # a store on PostgreSQL may have none
            shutil.copy2(key, folder)

    def list_tasks(self) -> list[dict[str, Any]]:
        tasks: list[dict[str, Any]] = call_tool(self.app, "workflow_get", id=self.plan, include_tasks=True)[
            "tasks"
        ]
        return tasks

    def build_command(self, *options: str) -> list[str]:
        """Return the command that runs the plan; the same command again goes on with it."""
        return [*PLAIN, "run", self.plan, "--json", *options]

    def run(self, *options: str) -> CommandResult:
        """Run the plan to its end."""
        return run_deepwork(self.folder, "run", self.plan, "--json", *options, environment=self.variables)

    @property
    def variables(self) -> dict[str, str]:
        """The environment of the person: programs named like the vendors' are the scripted agent."""
        database = {"DEEPWORK_DATABASE_URL": self._location} if self._location else {}
        return {
            **os.environ,
            "PATH": f"{self.agents.bin}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.home / ".config"),
            "SECRET_OF_THE_PERSON": "not for agents",
            **database,
        }

    def close(self) -> None:
        self.app.close()


def read_events(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the events that `--json` printed, and the lines that are none; a kill may cut a line."""
    events, wrong = [], []
    for line in path.read_text(errors="replace").splitlines() if path.exists() else ():
        try:
            event = json.loads(line)
        except ValueError:
            wrong.append(line)
        else:
            events.append(event)
    return events, wrong
