"""Scripts for the scripted agent, programs named like the vendors' that play it, and what it wrote down."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from itertools import chain, combinations
from pathlib import Path
from typing import Any

from runner.fake_streams import STREAMS, Used

PROGRAM = Path(__file__).with_name("fake_agent.py")

Steps = list[dict[str, Any]]


class ScriptedAgents:
    """A folder with a script, the programs that follow it, and their ledger."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.script = folder / "script.json"
        self.ledger = folder / "ledger.jsonl"
        self.bin.mkdir(parents=True)
        for vendor in STREAMS:
            self._install(vendor)

    def write_script(self, tasks: Mapping[str, list[Steps]], names: Mapping[str, str]) -> None:
        """Say what the agents do: by the name of a task, for its first process, its second, and so on."""
        content = {
            "home": str(self.folder / "home"),
            "ledger": str(self.ledger),
            "names": names,
            "tasks": tasks,
        }
        new = self.script.with_suffix(".new")
        new.write_text(json.dumps(content))
        new.replace(self.script)

    def get_command(self, vendor: str = "command") -> list[str]:
        """Return a command that plays an agent of this vendor."""
        return [sys.executable, "-S", str(PROGRAM), "--script", str(self.script), "--as", vendor]

    def get_agent(self, vendor: str) -> str:
        """Return what `--agent` takes for this vendor: its name, or the whole command."""
        return vendor if vendor != "command" else f"{shlex.join(self.get_command())} {{prompt_file}}"

    def forget_sessions(self) -> None:
        """Lose the transcripts: no session can be resumed."""
        for file in (self.folder / "home").glob("*.session"):
            file.unlink()

    def read_ledger(self) -> list[Process]:
        """Return the processes that ran, in the order of their starts."""
        return read_ledger(self.ledger)

    def measure_ledger(self) -> int:
        """Return the size of the ledger: it grows with everything that agents do."""
        return self.ledger.stat().st_size if self.ledger.exists() else 0

    def _install(self, vendor: str) -> None:
        program = self.bin / vendor
        program.write_text(f'#!/bin/sh\nexec {shlex.join(self.get_command(vendor))} "$@"\n')
        program.chmod(0o755)


@dataclass
class Process:
    """One process of the scripted agent, as it described itself."""

    start: dict[str, Any]
    reports: dict[int, Used] = field(default_factory=dict)
    unsure: set[int] = field(default_factory=set)
    """Reports of which it is not known whether they were written: the process was killed meanwhile."""
    overlaps: list[str] = field(default_factory=list)
    code: int | None = None

    @property
    def pid(self) -> int:
        return int(self.start["pid"])

    @property
    def name(self) -> str:
        return str(self.start["name"])

    @property
    def identity(self) -> tuple[int, str]:
        return self.pid, self.start["started"]

    @property
    def parent(self) -> tuple[int, str]:
        """The process that started it: the shim."""
        return int(self.start["parent"]), self.start["parent_started"]

    def add(self, entry: dict[str, Any]) -> None:
        match entry["event"]:
            case "reporting":
                self.reports[entry["report"]] = Used(**{each.name: entry[each.name] for each in fields(Used)})
                self.unsure.add(entry["report"])
            case "reported":
                self.unsure.discard(entry["report"])
            case "overlap":
                self.overlaps.append(entry["other"])
            case "end":
                self.code = entry["code"]


def read_ledger(path: Path) -> list[Process]:
    """Read a ledger; the last line may still be half written."""
    processes: dict[int, Process] = {}
    found: list[Process] = []
    for line in path.read_text().splitlines(keepends=True) if path.exists() else ():
        if not line.endswith("\n"):
            break
        entry = json.loads(line)
        if entry["event"] == "start":  # a pid may be used again
            processes[entry["pid"]] = Process(entry)
            found.append(processes[entry["pid"]])
        else:
            processes[entry["pid"]].add(entry)
    return found


def list_possible_sums(processes: Iterable[Process]) -> list[Used]:
    """Return what the processes can have reported: one sum, or more if a kill leaves doubt."""
    kept = list(processes)
    sure = [used for each in kept for key, used in each.reports.items() if key not in each.unsure]
    doubtful = [each.reports[key] for each in kept for key in each.unsure]
    subsets = chain.from_iterable(combinations(doubtful, size) for size in range(len(doubtful) + 1))
    return [sum((*sure, *subset), start=Used()) for subset in subsets]
