"""Builders for the tests of workspaces: a real repository, and workflows in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from application import call_tool
from deepwork.edge.server.application import Application

_NOBODY = {
    "GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull,
    # A commit would start another program of git, to see whether there is much to tidy up.
    "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "maintenance.auto", "GIT_CONFIG_VALUE_0": "false",
}  # fmt: skip


def run_git(folder: Path, *arguments: str) -> str:
    """What git says in this folder."""
    done = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env={**os.environ, **_NOBODY},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def commit(folder: Path, message: str = "work", **files: str) -> str:
    """Write these files, `a_txt` for a.txt, and commit them."""
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    run_git(folder, "add", "-A")
    run_git(folder, "commit", "-qm", message)
    return run_git(folder, "rev-parse", "HEAD")


def create_repository(folder: Path) -> Path:
    """A new repository with one commit on main."""
    shutil.copytree(_get_first_repository(), folder, dirs_exist_ok=True)
    run_git(folder, "update-index", "-q", "--refresh")  # the copies are other files than those in the index
    return folder


@cache
def _get_first_repository() -> Path:
    """Make the repository of which all others are copies: four programs of git take longer than a copy."""
    folder = Path(tempfile.mkdtemp(prefix="repository-", dir=os.environ["XDG_RUNTIME_DIR"]))
    run_git(folder, "init", "-q", "-b", "main")
    (folder / ".gitignore").write_text("/.deepwork/\n/deepwork.db*\n")
    commit(folder, "first", a_txt="one\n")
    return folder


def create_plan(app: Application, *names: str, **given: Any) -> tuple[str, list[str]]:
    """Create a workflow with these tasks, which may all run in parallel; return the ids."""
    made: dict[str, Any] = {
        "name": "Release",
        "source_type": "prompt",
        "source_content": "Ship it.",
        "max_parallel_tasks": 9,
    }
    id = call_tool(app, "workflow_create", **(made | given))["id"]
    if not names:
        return id, []
    tasks = [{"name": name, "description": "", "sequence": 1, "parallel_group": "g"} for name in names]
    call_tool(app, "workflow_set_plan", id=id, plan={"summary": "s", "tasks": tasks})
    shown = call_tool(app, "workflow_get", id=id, include_tasks=True)["tasks"]
    return id, [task["id"] for task in shown]


def list_workspaces(app: Application, workflow_id: str, **given: Any) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = call_tool(app, "workspace_list", workflow_id=workflow_id, **given)[
        "workspaces"
    ]
    return listed


class Plan:
    """A plan whose tasks name what they depend on, worked on by one agent per task."""

    def __init__(
        self,
        app: Application,
        tasks: Mapping[str, list[str] | None],
        sequences: Mapping[str, int] | None = None,
        **plan: Any,
    ) -> None:
        self._app = app
        self.id, _ = create_plan(app, auto_create_workspaces=True)
        written = [
            {"name": name, "depends_on": needed, "sequence": (sequences or {}).get(name, 1)}
            for name, needed in tasks.items()
        ]
        call_tool(app, "workflow_set_plan", id=self.id, plan={"summary": "s", "tasks": written, **plan})
        shown = call_tool(app, "workflow_get", id=self.id, include_tasks=True)["tasks"]
        self.ids = {task["name"]: task["id"] for task in shown}
        self.claims: dict[str, dict[str, Any]] = {}

    def claim(self, name: str) -> dict[str, Any]:
        agent = call_tool(self._app, "agent_register", name=name, runtime="custom", caller=name)["id"]
        claimed: dict[str, Any] = call_tool(
            self._app, "task_claim", task_id=self.ids[name], agent_id=agent, caller=name
        )
        assert claimed["success"], claimed
        self.claims[name] = claimed | {"agent_id": agent}
        return claimed

    def complete(self, name: str) -> dict[str, Any]:
        who = self.claims[name]["agent_id"]
        answer: dict[str, Any] = call_tool(
            self._app,
            "task_update_status",
            id=self.ids[name],
            status="completed",
            outcome="Done.",
            agent_id=who,
            caller=name,
        )
        return answer

    def do(self, name: str, **files: str) -> dict[str, Any]:
        """Claim the task, commit these files in its tree, and complete it."""
        claimed = self.claim(name)
        if files:
            commit(Path(claimed["workspace_path"]), name, **files)
        self.complete(name)
        return claimed

    def get_branch(self, name: str) -> str:
        branch: str = self.claims[name]["branch"]
        return branch
