"""Part of `make demo`: two agents exchange messages through real servers."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

DEEPWORK = [sys.executable, "-P", "-m", "deepwork"]


class AgentClient:
    """One agent with its own server process, as Claude Code or Codex would start it."""

    def __init__(self, name: str, client: Client[Any]) -> None:
        self.name, self._client = name, client
        self.id = ""

    async def call(self, tool: str, **arguments: Any) -> Any:
        answer = await self._client.call_tool(tool, arguments)
        return answer.structured_content

    async def register(self, runtime: str, **more: Any) -> None:
        self.id = (await self.call("agent_register", name=self.name, runtime=runtime, **more))["id"]
        print(f"  {self.name:<6} registers as {self.id} ({runtime})")

    async def send(self, to: AgentClient, kind: str, body: Any, **more: Any) -> Any:
        print(f"  {self.name:<6} → {to.name}: {body}")
        return await self.call(
            "message_send", sender_id=self.id, recipient_id=to.id, message_type=kind, body=body, **more
        )


def connect_client(project: str) -> Client[Any]:
    return Client(
        StdioTransport(
            DEEPWORK[0],
            [*DEEPWORK[1:], "serve", "--log-level", "warning", "--path", project],
            keep_alive=False,
        )
    )


async def hold_conversation(project: str) -> None:
    async with connect_client(project) as first, connect_client(project) as second:
        ada, bob = AgentClient("Ada", first), AgentClient("Bob", second)

        print("Two MCP clients, two server processes over stdio, one project:\n")
        await ada.register("claude_code", role="coordinator")
        await bob.register("codex", capabilities=["python", "testing"])

        asked = await ada.send(
            bob, "task_assignment", "Please run the tests.", subject="Tests", priority="high"
        )
        inbox = await bob.call("message_list", agent_id=bob.id)
        print(f"  Bob    finds {inbox['unread_count']} unread message in his inbox and works on it")
        await bob.call("agent_heartbeat", agent_id=bob.id, status="busy")
        await bob.send(ada, "response", {"tests": "passed", "count": 42}, reply_to_id=asked["id"])
        await bob.call("message_mark_read", message_ids=[asked["id"]])
        thread = await ada.call("message_list", agent_id=ada.id, thread_id=asked["thread_id"])
        print(f"  Ada    reads the thread: {len(thread['messages'])} messages, both directions")
        await bob.call("agent_unregister", id=bob.id)
        print("  Bob    unregisters\n")


def run_deepwork(project: str, *words: str) -> str:
    return subprocess.run(
        [*DEEPWORK, *words, "--path", project], check=True, capture_output=True, text=True, timeout=60
    ).stdout


def print_command(title: str, project: str, *words: str) -> None:
    print(f"{title}\n\n$ deepwork {' '.join(words)}\n{run_deepwork(project, *words)}")


def show(folder: Path) -> str:
    """Run the conversation in this project, then show it with commands; return what happened."""
    project = str(folder)
    anyio.run(hold_conversation, project)
    print_command("Everything was stored before it was answered. From a terminal:", project, "agents", "list")
    print_command(
        "Every change was published once, in order:", project, "events", "tail", "--since", "0", "--no-follow"
    )
    events = run_deepwork(project, "events", "tail", "--since", "0", "--no-follow", "--json").splitlines()
    kinds = Counter(json.loads(line)["type"] for line in events)
    return f"{kinds['agent:registered']} agents, {kinds['message:created']} messages, {len(events)} events"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="deepwork-demo-") as own:
        print(show(Path(own)))
