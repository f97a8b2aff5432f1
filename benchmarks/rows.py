"""The tools to measure. To add a row, add a line: a tool, and its arguments for the n-th call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from clients import Caller


@dataclass(frozen=True)
class Agents:
    """Ids of the agents in the rows: Ada writes, Bob has 3 messages, Max has 30, Eve receives."""

    ada: str
    bob: str
    max: str
    eve: str

    @classmethod
    def register(cls, caller: Caller) -> Agents:
        ids = [
            caller.call("agent_register", {"name": name, "runtime": "custom"})["id"]
            for name in ("Ada", "Bob", "Max", "Eve")
        ]
        for number in range(33):
            caller.call(
                "message_send",
                {
                    "sender_id": ids[0],
                    "recipient_id": ids[1 if number < 3 else 2],
                    "message_type": "query",
                    "body": f"message {number}",
                },
            )
        return cls(*ids)


@dataclass(frozen=True)
class Row:
    """One tool and its target: the highest ratio of its median to the echo's; None if they are not comparable."""

    tool: str
    arguments: Callable[[Agents, int], dict[str, Any]]
    target: float | None
    note: str = ""

    @property
    def name(self) -> str:
        return f"{self.tool} {self.note}".strip()


READ, WRITE = 1.6, 2.5

ROWS = (
    Row("agent_get", lambda agents, _: {"id": agents.ada}, READ),
    Row("message_list", lambda agents, _: {"agent_id": agents.bob}, READ, "(3)"),
    Row("message_list", lambda agents, _: {"agent_id": agents.max}, None, "(20)"),
    Row("agent_heartbeat", lambda agents, _: {"agent_id": agents.ada}, WRITE),
    Row(
        "message_send",
        lambda agents, n: {
            "sender_id": agents.ada,
            "recipient_id": agents.eve,
            "message_type": "query",
            "body": f"number {n}",
        },
        WRITE,
    ),
)
