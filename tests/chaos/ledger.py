"""Records which calls a client intended and which were acknowledged, to check a store against.

The client writes its intent before a call and the answer after it, into its own file. Whenever it is killed, the
file shows for every call: never started, possibly done, certainly done.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from chaos.effects import build_intended_effect


@dataclass(frozen=True)
class Entry:
    """One call of a client, with its own idempotency key."""

    key: str
    tool: str
    arguments: dict[str, Any]
    answer: Any = None

    @property
    def is_acknowledged(self) -> bool:
        return self.answer is not None

    @property
    def effect(self) -> str:
        """The effect that the call must have exactly once."""
        return build_intended_effect(self.tool, self.arguments)


class Ledger:
    """One client's file; a new process of the same client continues where the last one was killed."""

    def __init__(self, path: Path) -> None:
        self.entries = read_entries(path)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def intend(self, key: str, tool: str, arguments: dict[str, Any]) -> Entry:
        self._append({"intent": key, "tool": tool, "arguments": arguments})
        entry = Entry(key, tool, arguments)
        self.entries.append(entry)
        return entry

    def acknowledge(self, entry: Entry, answer: Any) -> Entry:
        self._append({"ack": entry.key, "answer": answer})
        acknowledged = replace(entry, answer=answer)
        self.entries[self.entries.index(entry)] = acknowledged
        return acknowledged

    def close(self) -> None:
        os.close(self._file)

    def _append(self, line: dict[str, Any]) -> None:
        # A newline first, so that a line cut short by a kill does not damage the next one.
        os.write(self._file, b"\n" + json.dumps(line).encode())


def read_entries(path: Path) -> list[Entry]:
    """Read all entries of the file, in the order of the intents."""
    entries: dict[str, Entry] = {}
    for line in _read_lines(path):
        if "intent" in line:
            entries[line["intent"]] = Entry(line["intent"], line["tool"], line["arguments"])
        else:
            entries[line["ack"]] = replace(entries[line["ack"]], answer=line["answer"])
    return list(entries.values())


def find_faults(entries: Iterable[Entry], effects: Iterable[str], *, acknowledged: float = 0.5) -> list[str]:
    """List lost, duplicate and unintended effects of a store, one message each."""
    entries, effects = list(entries), list(effects)
    return [
        *find_lost(entries, effects),
        *find_doubled(entries, effects),
        *find_idleness(entries, acknowledged),
    ]


def find_lost(entries: Iterable[Entry], effects: Iterable[str]) -> list[str]:
    """List acknowledged calls whose effect is missing."""
    found = set(effects)
    return [
        f"was acknowledged but is missing: {entry.effect}"
        for entry in entries
        if entry.is_acknowledged and entry.effect not in found
    ]


def find_doubled(entries: Iterable[Entry], effects: Iterable[str]) -> list[str]:
    """List effects that exist more than once, or that nobody intended."""
    found, meant = Counter(effects), {entry.effect for entry in entries}
    return [
        *(f"exists {count} times: {effect}" for effect, count in found.items() if count > 1),
        *(f"exists but was not intended: {effect}" for effect in found if effect not in meant),
    ]


def find_idleness(entries: list[Entry], acknowledged: float) -> list[str]:
    """Report a run in which most calls failed: it loses nothing, but proves nothing either."""
    acks = sum(entry.is_acknowledged for entry in entries)
    if acks and acks >= acknowledged * len(entries):
        return []
    return [f"too few were acknowledged to prove anything: {acks} of {len(entries)} calls"]


def _read_lines(path: Path) -> Iterable[dict[str, Any]]:
    if not path.exists():
        return
    for line in path.read_bytes().splitlines():
        try:
            yield json.loads(line)
        except (
            ValueError
        ):  # empty, or cut short by a kill: it was never finished, so nothing followed from it
            continue
