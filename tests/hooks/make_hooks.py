"""A project with a plan, an agent and a hook to call, for tests."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from application import ask
from deepwork.hooks.clients import TOOL_USE, read
from deepwork.hooks.happenings import answer
from deepwork.server.application import Application


def event(session: str = "s1", cwd: str = "", **more: Any) -> bytes:
    """An event as Claude Code tells it."""
    return json.dumps({"session_id": session, "cwd": cwd, **more}).encode()


def tool_event(tool: str, given: dict[str, Any], said: dict[str, Any], **more: Any) -> bytes:
    """The answer of one of our tools, passing by."""
    content = [{"type": "text", "text": json.dumps(said)}]
    return event(tool_name=f"mcp__deepwork__{tool}", tool_input=given, tool_response=content, **more)


@dataclass
class Project:
    """A store with a plan of two tasks, and agents that come to work on it."""

    app: Application

    def hook(self, name: str, content: bytes, client: str = "claude-code") -> dict[str, Any]:
        """What the hook prints, as JSON; {} for nothing."""
        printed = answer(name, self.app.settings, read(client, content))
        return json.loads(printed) if printed else {}

    def context(self, name: str, content: bytes) -> str:
        """What the hook puts before the agent's eyes."""
        printed = self.hook(name, content)
        return printed["hookSpecificOutput"]["additionalContext"] if printed else ""

    def agent(self, name: str = "Ada") -> str:
        id: str = ask(self.app, "agent_register", name=name, runtime="claude_code")["id"]
        return id

    def plan(self, name: str = "Login by SSO") -> list[str]:
        """A plan; the ids of its tasks."""
        id = ask(self.app, "workflow_create", name=name, source_type="prompt", source_content="Log in.")["id"]
        tasks = [
            {"name": "design", "description": "Write the flow down.", "sequence": 1},
            {"name": "build", "description": "Build the flow.", "sequence": 2, "depends_on": ["design"]},
        ]
        ask(self.app, "workflow_set_plan", id=id, plan={"summary": "s", "approach": "a", "tasks": tasks})
        return [task["id"] for task in ask(self.app, "workflow_get", id=id, include_tasks=True)["tasks"]]

    def claim(self, task: str, agent: str, **more: Any) -> dict[str, Any]:
        """Claim, with the hook looking on."""
        given = {"task_id": task, "agent_id": agent}
        said = ask(self.app, "task_claim", **given)
        assert said["success"], said
        return self.hook(TOOL_USE, tool_event("task_claim", given, said, **more))

    def at_work(self) -> tuple[str, str]:
        """An agent that holds a task; both ids."""
        agent, [task, _] = self.agent(), self.plan()
        self.claim(task, agent)
        return agent, task

    def change(self, sql: str, **values: Any) -> None:
        with self.app.database.transaction() as tx:
            assert tx.run(sql, **values)

    def value(self, sql: str, **values: Any) -> Any:
        with self.app.database.reading() as tx:
            return tx.value(sql, **values)

    @property
    def records(self) -> list[Path]:
        return sorted((self.app.settings.store_folder / "hooks").glob("*.json"))
