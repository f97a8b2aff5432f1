"""What is measured of deepwork's tools. To add a row, add a line: a tool, and its arguments for the n-th call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from clients import Caller


@dataclass(frozen=True)
class Desk:
    """What a row may name: Ada writes, Bob has three messages, Max has thirty, Eve gets what is sent."""

    ada: str
    bob: str
    max: str
    eve: str

    @classmethod
    def set_up(cls, caller: Caller) -> Desk:
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
    """One tool, and the most that its median may be of the echo's; None where it does more than an echo could."""

    tool: str
    arguments: Callable[[Desk, int], dict[str, Any]]
    target: float | None
    note: str = ""

    @property
    def name(self) -> str:
        return f"{self.tool} {self.note}".strip()


READ, WRITE = 1.6, 2.5

ROWS = (
    Row("agent_get", lambda desk, _: {"id": desk.ada}, READ),
    Row("message_list", lambda desk, _: {"agent_id": desk.bob}, READ, "(3)"),
    Row("message_list", lambda desk, _: {"agent_id": desk.max}, None, "(20)"),
    Row("agent_heartbeat", lambda desk, _: {"agent_id": desk.ada}, WRITE),
    Row(
        "message_send",
        lambda desk, n: {
            "sender_id": desk.ada,
            "recipient_id": desk.eve,
            "message_type": "query",
            "body": f"number {n}",
        },
        WRITE,
    ),
)
