"""What a client meant to do and what it was told was done: the truth that a store is measured by.

The intent is written down before a call and the answer after its reply, each into the client's own file. So
when a process is killed at any moment, the file says of every call: never begun, perhaps done, surely done.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from chaos.effects import intended


@dataclass(frozen=True)
class Entry:
    """One call of a client, under a key of its own."""

    key: str
    tool: str
    arguments: dict[str, Any]
    answer: Any = None

    @property
    def is_acknowledged(self) -> bool:
        return self.answer is not None

    @property
    def effect(self) -> str:
        """What the call leaves behind, once."""
        return intended(self.tool, self.arguments)


class Ledger:
    """One client's file; a new process of the same client goes on where the last one was killed."""

    def __init__(self, path: Path) -> None:
        self.entries = read(path)
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
        # A newline first: a line that a kill cut short stays alone.
        os.write(self._file, b"\n" + json.dumps(line).encode())


def read(path: Path) -> list[Entry]:
    """Everything in the file, in the order of the intents."""
    entries: dict[str, Entry] = {}
    for line in _lines(path):
        if "intent" in line:
            entries[line["intent"]] = Entry(line["intent"], line["tool"], line["arguments"])
        else:
            entries[line["ack"]] = replace(entries[line["ack"]], answer=line["answer"])
    return list(entries.values())


def faults(entries: Iterable[Entry], effects: Iterable[str], *, acknowledged: float = 0.5) -> list[str]:
    """What is wrong with a store that has these effects, a sentence each; empty when all is well."""
    entries, found = list(entries), Counter(effects)
    meant = {entry.effect for entry in entries}
    acks = sum(entry.is_acknowledged for entry in entries)
    lost = [entry.effect for entry in entries if entry.is_acknowledged and not found[entry.effect]]
    doubled = [effect for effect, count in found.items() if count > 1]
    # A run in which every call failed loses nothing, and says nothing.
    idle = [] if acks >= acknowledged * len(entries) and acks else [f"{acks} of {len(entries)} calls"]
    return [
        *(f"was acknowledged and is lost: {effect}" for effect in lost),
        *(f"is there {found[effect]} times: {effect}" for effect in doubled),
        *(f"is there and nobody meant it: {effect}" for effect in found if effect not in meant),
        *(f"too few were acknowledged to say anything: {count}" for count in idle),
    ]


def _lines(path: Path) -> Iterable[dict[str, Any]]:
    if not path.exists():
        return
    for line in path.read_bytes().splitlines():
        try:
            yield json.loads(line)
        except (
            ValueError
        ):  # empty, or cut short by a kill: it was never finished, so nothing followed from it
            continue
