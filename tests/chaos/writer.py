"""A client that makes all kinds of writes, as agents do, and records them in a ledger."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from chaos.ledger import Entry, Ledger

Ask = Callable[[Entry], Any]


class Writer:
    """Chooses each write from the agents and messages in its ledger; its name makes its keys unique."""

    def __init__(self, name: str, ledger: Ledger, ask: Ask, chance: random.Random, shared: str = "") -> None:
        """`shared` is an agent that every writer writes to; `ask` executes a call."""
        self._name, self._ledger, self._ask, self._chance = name, ledger, ask, chance
        self._shared = [shared] if shared else []
        self._agents: list[str] = []
        self._unread: list[str] = []
        self._read: list[str] = []
        for entry in ledger.entries:
            self._learn(entry)

    def resume(self) -> None:
        """Repeat calls that were never acknowledged, with their keys."""
        for entry in [entry for entry in self._ledger.entries if not entry.is_acknowledged]:
            self._carry_out(entry)

    def write(self) -> Entry:
        """Make one more write."""
        return self._carry_out(self.intend())

    def intend(self) -> Entry:
        """Choose the next write and record its intent."""
        key = f"{self._name}-{len(self._ledger.entries)}"
        tool, arguments = self._next(key)
        return self._ledger.intend(key, tool, arguments)

    def _carry_out(self, entry: Entry) -> Entry:
        done = self._ledger.acknowledge(entry, self._ask(entry))
        self._learn(done)
        return done

    def _next(self, key: str) -> tuple[str, dict[str, Any]]:
        if len(self._agents) < 2:
            return "agent_register", {"name": key, "runtime": "custom", "metadata": {"born": key}}
        someone = self._chance.choice(self._agents + self._shared)
        return self._chance.choice(self._possible(key, someone))

    def _possible(self, key: str, someone: str) -> list[tuple[str, dict[str, Any]]]:
        body = {"key": key, "text": "é" * self._chance.randrange(1500)}
        possible: list[tuple[str, dict[str, Any]]] = [
            ("agent_register", {"name": key, "runtime": "custom", "metadata": {"born": key}}),
            ("agent_heartbeat", {"agent_id": someone, "current_task_id": key, "status": "busy"}),
            ("agent_update", {"id": someone, "current_task_id": key, "metadata": {key: body["text"][:20]}}),
            (
                "message_send",
                {
                    "sender_id": self._agents[0], "recipient_id": someone,
                    "message_type": "query", "body": body,
                },
            ),
        ]  # fmt: skip
        if self._unread:
            possible.append(("message_mark_read", {"message_ids": [self._chance.choice(self._unread)]}))
        if self._read:
            possible.append(("message_archive", {"message_ids": [self._chance.choice(self._read)]}))
        if len(self._agents) > 5:
            possible.append(("agent_unregister", {"id": self._agents[-1]}))
        return possible

    def _learn(self, entry: Entry) -> None:
        if not entry.is_acknowledged:
            return
        match entry.tool:
            case "agent_register":
                self._agents.append(entry.answer["id"])
            case "agent_unregister":
                self._agents.remove(entry.arguments["id"])
            case "message_send":
                self._unread.append(entry.answer["id"])
            case "message_mark_read":
                self._unread.remove(entry.arguments["message_ids"][0])
                self._read += entry.arguments["message_ids"]
            case "message_archive":
                self._read.remove(entry.arguments["message_ids"][0])
