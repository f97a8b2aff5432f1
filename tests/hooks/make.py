"""Helpers: hook events, and a project with a plan and agents."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from application import call_tool
from deepwork.edge.server.application import Application
from deepwork.views.hooks.dispatch import dispatch_event
from deepwork.views.hooks.protocol import TOOL_USE, parse_event


def build_event(session: str = "s1", cwd: str = "", **more: Any) -> bytes:
    """Build an event as Claude Code sends it."""
    return json.dumps({"session_id": session, "cwd": cwd, **more}).encode()


def build_tool_event(tool: str, given: dict[str, Any], said: dict[str, Any], **more: Any) -> bytes:
    """Build the event for a call of one of our tools."""
    content = [{"type": "text", "text": json.dumps(said)}]
    return build_event(tool_name=f"mcp__deepwork__{tool}", tool_input=given, tool_response=content, **more)


@dataclass
class Project:
    """A store in which tests create plans of two tasks and agents."""

    app: Application

    def run_hook(self, name: str, content: bytes, client: str = "claude-code") -> dict[str, Any]:
        """Run a hook and parse the JSON it prints; {} for no output."""
        printed = dispatch_event(name, self.app.settings, parse_event(client, content))
        return json.loads(printed) if printed else {}

    def run_for_context(self, name: str, content: bytes) -> str:
        """Run a hook and return the text it adds to the agent's context."""
        printed = self.run_hook(name, content)
        return printed["hookSpecificOutput"]["additionalContext"] if printed else ""

    def register_agent(self, name: str = "Ada") -> str:
        id: str = call_tool(self.app, "agent_register", name=name, runtime="claude_code")["id"]
        return id

    def create_plan(self, name: str = "Login by SSO") -> list[str]:
        """Create a plan and return the ids of its tasks."""
        id = call_tool(
            self.app, "workflow_create", name=name, source_type="prompt", source_content="Log in."
        )["id"]
        tasks = [
            {"name": "design", "description": "Write the flow down.", "sequence": 1},
            {"name": "build", "description": "Build the flow.", "sequence": 2, "depends_on": ["design"]},
        ]
        call_tool(
            self.app, "workflow_set_plan", id=id, plan={"summary": "s", "approach": "a", "tasks": tasks}
        )
        return [
            task["id"] for task in call_tool(self.app, "workflow_get", id=id, include_tasks=True)["tasks"]
        ]

    def claim(self, task: str, agent: str, **more: Any) -> dict[str, Any]:
        """Claim a task, then run the tool-use hook for that call."""
        given = {"task_id": task, "agent_id": agent}
        said = call_tool(self.app, "task_claim", **given)
        assert said["success"], said
        return self.run_hook(TOOL_USE, build_tool_event("task_claim", given, said, **more))

    def start_task(self) -> tuple[str, str]:
        """Let a new agent claim a task; return both ids."""
        agent, [task, _] = self.register_agent(), self.create_plan()
        self.claim(task, agent)
        return agent, task

    def execute(self, sql: str, **values: Any) -> None:
        with self.app.database.transaction() as tx:
            assert tx.execute(sql, **values)

    def fetch_value(self, sql: str, **values: Any) -> Any:
        with self.app.database.reading() as tx:
            return tx.fetch_value(sql, **values)

    @property
    def records(self) -> list[Path]:
        return sorted((self.app.settings.store_folder / "hooks").glob("*.json"))


def let_pass(project: Project, agent: str, seconds: int) -> None:
    """As if the agent had been silent for so long."""
    project.execute(
        "UPDATE agents SET last_heartbeat = last_heartbeat - :ms WHERE id = :id", id=agent, ms=seconds * 1000
    )
    project.execute("UPDATE leases SET until = until - :ms WHERE who = :id", id=agent, ms=seconds * 1000)
