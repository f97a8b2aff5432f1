"""An agent under a run: its plan, its attempt and its token, beside a plan and agents of others."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from application import call_tool
from deepwork.delivery.runner.agent_access import (
    AgentAccess,
    AgentToken,
    build_bridge_file,
    update_bridge_file,
)
from deepwork.delivery.runner.attempt_files import AttemptFiles
from deepwork.delivery.runner.models import Attempt, AttemptStage, RunOptions
from deepwork.delivery.runner.processes import read_boot_id
from deepwork.delivery.runner.service import create_run
from deepwork.delivery.runner.store import AttemptStore, RunStore
from deepwork.edge.server.agent_rules import AgentService
from deepwork.edge.server.application import Application
from deepwork.kernel.database.store_key import create_store_key
from deepwork.kernel.protocol.messages import Request
from deepwork.kernel.supervision.supervisor import read_start_time

ATTEMPT = "at_000000000001"


class AgentWorld:
    """The agent works on the task `mine`; `peer` on `next` of the same plan, `stranger` on another plan."""

    def __init__(self, app: Application, socket: Path = Path("/nowhere")) -> None:
        self.app = app
        self.plan, tasks = self._make_plan("Ours", "mine", "next")
        self.other_plan, others = self._make_plan("Theirs", "secret")
        self.ids = tasks | others | {"plan": self.plan, "other_plan": self.other_plan}
        for name, task in (("agent", "mine"), ("peer", "next"), ("stranger", "secret")):
            self.ids[name] = call_tool(app, "agent_register", name=name, runtime="codex")["id"]
            claimed = call_tool(
                app, "task_claim", task_id=self.ids[task], agent_id=self.ids[name], start=True
            )
            assert claimed["success"], claimed
        self.files = AttemptFiles.locate(app.settings.state_folder, ATTEMPT, 1)
        self.attempt = self._make_attempt()
        with app.database.reading() as tx:
            content = build_bridge_file(tx.store_key, self.attempt, socket)
        self.files.folder.mkdir(parents=True)
        self.files.bridge.write_text(content)
        self.access = AgentAccess(app.database)

    @property
    def token(self) -> str:
        """The token that the file of the agent has."""
        return str(json.loads(self.files.bridge.read_text())["token"])

    def _make_plan(self, name: str, *tasks: str) -> tuple[str, dict[str, str]]:
        plan = call_tool(
            self.app,
            "workflow_create",
            name=name,
            source_type="prompt",
            source_content="x",
            max_parallel_tasks=9,
        )["id"]
        given = {"summary": "s", "tasks": [{"name": each, "description": ""} for each in tasks]}
        call_tool(self.app, "workflow_set_plan", id=plan, plan=given)
        listed = call_tool(self.app, "workflow_get", id=plan, include_tasks=True)["tasks"]
        return plan, {task["name"]: task["id"] for task in listed}

    def _make_attempt(self) -> Attempt:
        with self.app.database.transaction() as tx:
            run = create_run(
                repository_path=str(self.app.settings.project_root), chain=["codex"], options=RunOptions(),
                created_by="human:ada", now=tx.now, workflow_id=self.plan,
            )  # fmt: skip
            assert RunStore(tx).add(run)
            attempt = Attempt(
                id=ATTEMPT, run_id=run.id, workflow_id=self.plan, task_id=self.ids["mine"], number=1, profile="codex",
                vendor="codex", agent_id=self.ids["agent"], claim_epoch=1, stage=AttemptStage.RUNNING, host="local",
                created_at=tx.now, updated_at=tx.now, starts=1, boot_id=read_boot_id(), pid=os.getpid(),
                start_time=read_start_time(os.getpid()),  # tests are the agent
            )  # fmt: skip
            AttemptStore(tx).add(attempt)
        return attempt

    def change_attempt(self, **changes: Any) -> None:
        with self.app.database.transaction() as tx:
            tx.update("attempts", ATTEMPT, changes)

    def update_file(self, socket: Path = Path("/nowhere")) -> None:
        """Write the file of the agent again, as its runner does."""
        with self.app.database.reading() as tx:
            attempt = AttemptStore(tx).get(ATTEMPT)
            update_bridge_file(tx.store_key, attempt, self.files, socket)

    def change_key(self) -> None:
        """Give the file a token that was made with the key of another store."""
        self.files.bridge.write_text(build_bridge_file(create_store_key(), self.attempt, Path("/nowhere")))

    def remove_attempt(self) -> None:
        with self.app.database.transaction() as tx:
            tx.execute("DELETE FROM attempts")

    def build_service(self) -> AgentService:
        """Build the service of the agent, for the token that it has now."""
        token = AgentToken(self.access, self.token)
        return AgentService(self.app, token.find_grant(), token)

    def call(self, tool: str, **arguments: Any) -> Any:
        """Call a tool as the agent; ids may be written as `{stranger}`."""
        named = {name: _name(value, self.ids) for name, value in arguments.items()}
        answer = self.build_service().call_tool(Request(1, "tools/call", {}), tool, named)
        return json.loads(answer.text)


def _name(value: Any, ids: dict[str, str]) -> Any:
    if isinstance(value, str):
        return value.format(**ids)
    return [_name(each, ids) for each in value] if isinstance(value, list) else value
