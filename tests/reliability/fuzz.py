"""Calls made from the tools' schemas, valid and broken: each gets an answer or a typed error, never an internal one."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any

from application import call_tool, make_app
from deepwork.edge.server.application import Application
from deepwork.edge.server.mcp_service import KEY, McpService
from deepwork.kernel.protocol.handler import MessageHandler
from deepwork.kernel.protocol.messages import Peer
from jobs import project as jobs
from reliability.call_drawer import CallDrawer
from reliability.result import Result

REFILL = 150
"""After so many calls most things are completed, removed or aborted."""
ENOUGH = 0.1
"""The least share of calls that must be answered without an error."""

INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "fuzz", "version": "1"},
}
_INTERNAL = -32603


def fuzz_tools(folder: Path, location: str, calls: int, seed: int) -> Result:
    """Call all tools with drawn arguments, through the message handler that every transport uses."""
    result, chance = Result(), random.Random(seed)
    project = make_project(folder)
    app = make_app(project, location, git_branch="off")
    try:
        service = McpService(app)
        connection = Connection(service)
        schemas = {name: spec.input_schema for name, spec in service.tools.items()}
        drawer = CallDrawer(schemas, chance, (str(project), str(project / "src"), "src/a.py", "first.md"))
        with (folder / "calls.log").open("w") as log:
            for number in range(calls):
                if number % REFILL == 0:
                    drawer.learn_ids(json.dumps(fill_store(app)))
                tool, arguments = drawer.draw_call()
                print(json.dumps([number, tool, arguments]), file=log, flush=True)
                key = f"key {chance.randrange(50)}" if chance.random() < 0.1 else None
                _judge(result, drawer, tool, arguments, connection.call(tool, arguments, key))
        called = {tool for tool in service.tools if drawer.called[tool]}
        result.count(tools=len(called))
    finally:
        app.close()
    share = result.counts["acknowledged"] / calls
    result.faults += [f"only {share:.0%} of the calls were answered without an error"] * (share < ENOUGH)
    return result


class Connection:
    """A client of a handler in this process; messages and answers pass through JSON."""

    def __init__(self, service: McpService) -> None:
        self._handler, self._peer, self._number = MessageHandler(service), Peer(lambda _: None), 0
        self._ask("initialize", INITIALIZE)

    def call(self, tool: str, arguments: Any, key: str | None) -> dict[str, Any]:
        meta = {} if key is None else {"_meta": {KEY: key}}
        return self._ask("tools/call", {"name": tool, "arguments": arguments, **meta})

    def _ask(self, method: str, params: Any) -> dict[str, Any]:
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        answer = self._handler.handle(json.loads(json.dumps(message)), self._peer)
        assert answer is not None, message
        parsed: dict[str, Any] = json.loads(answer.body)
        assert parsed["id"] == self._number, message
        return parsed


def _judge(result: Result, drawer: CallDrawer, tool: str, arguments: Any, answer: dict[str, Any]) -> None:
    result.count(calls=1)
    if "error" in answer:
        is_internal, text = answer["error"]["code"] == _INTERNAL, json.dumps(answer["error"])
    else:
        text = answer["result"]["content"][0]["text"]
        is_error = answer["result"].get("isError", False)
        is_internal = is_error and json.loads(text)["code"] == "INTERNAL_ERROR"
        if not is_error:
            result.count(acknowledged=1, first_try=1)
            drawer.learn_ids(text)
            return
    result.count(refused=1)
    if is_internal:
        result.report("internal_errors", [f"{tool} {json.dumps(arguments)[:2000]} -> {text}"])


def make_project(folder: Path) -> Path:
    """Make a git repository with a file, a job and a review rule."""
    project = folder / "project"
    project.mkdir()
    jobs.write_job(project, "chain", [jobs.make_step("first"), jobs.make_step("second")])
    jobs.write_files(project, "first.md", "second.md", "src/a.py")
    (project / ".gitignore").write_text(".deepwork/\n")
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "start"]):
        subprocess.run(["git", *words], cwd=project, check=True)
    jobs.write_files(project, "src/b.py")
    return project


def fill_store(app: Application) -> list[Any]:
    """Create one of most things, so that drawn calls have ids to use."""
    agents = [call_tool(app, "agent_register", name=f"agent {n}", runtime="custom") for n in range(3)]
    ada, bob = agents[0]["id"], agents[1]["id"]
    sent = call_tool(app, "message_send", sender_id=ada, recipient_id=bob, message_type="query", body="b")
    plan = call_tool(app, "workflow_create", name="plan", source_type="prompt", source_content="x")
    tasks = [{"name": f"task {n}", "depends_on": []} for n in range(8)]
    call_tool(app, "workflow_set_plan", id=plan["id"], plan={"summary": "s", "tasks": tasks})
    found = call_tool(app, "workflow_next_tasks", workflow_id=plan["id"])
    for task in found["tasks"][:2]:
        call_tool(app, "task_claim", task_id=task["id"], agent_id=ada, start=True)
    empty = call_tool(app, "workflow_create", name="empty", source_type="prompt", source_content="x")
    job = call_tool(app, "start_workflow", goal="g", job_name="chain", workflow_name="main")
    return [agents, sent, plan, found, empty, job, *_start_track(app)]


def _start_track(app: Application) -> list[Any]:
    track = call_tool(app, "start_workflow", name="track", objective="o", profile="simple", total_phases=9)
    phase = call_tool(app, "start_phase", workflow_id=track["workflow_id"], number=1, name="one")
    more = {"caller_type": "orchestrator", "name": "t", "goal": "g"}
    tasks = [
        call_tool(app, "start_task", workflow_id=track["workflow_id"], phase_id=phase["phase_id"], **more)
        for _ in range(3)
    ]
    issue = call_tool(
        app, "log_issue", task_id=tasks[0]["task_id"], type="other", description="d", resolution="r"
    )
    return [track, phase, tasks, issue]
