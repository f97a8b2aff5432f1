"""Two agents work on four tasks while the runner, the shims, the agents and the whole machine are killed.

    run_chaos.py FOLDER DATABASE VENDOR KILLS SEED

DATABASE is the URL of an empty PostgreSQL database, or `sqlite`.

It prints what it did and the faults that it found, as JSON. It is a process of its own: it plays the machine.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from runner.played_machine import Identity, Machine, is_alive
from runner.run_invariants import LINES, find_faults
from runner.run_project import RunProject
from runner.scripted import Process, Steps

AGENTS = 2
EARLY = 0.25
"""The share of the runner's kills that hit it while it starts."""
WEIGHTS = {"runner": 40, "agent": 20, "shim": 25, "machine": 15}
TASKS: dict[str, list[str]] = {"alpha": [], "beta": [], "gamma": ["alpha"], "delta": ["alpha", "beta"]}
OPENED = {"alpha": 0.2, "beta": 0.5, "gamma": 0.8, "delta": 1}
"""After which share of the kills a task can be finished: until then there is somebody to kill."""


@dataclass
class Chaos:
    """What was done, and what was found."""

    counts: dict[str, int]
    faults: list[str] = field(default_factory=list)


def start_chaos(folder: Path, database: str, vendor: str, kills: int, seed: int) -> Chaos:
    """Run this file as a process; raise AssertionError with what it said if it could not do its work."""
    folder.mkdir(exist_ok=True)
    words = [sys.executable, "-P", __file__, str(folder), database, vendor, str(kills), str(seed)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            output, errors = process.communicate()
        finally:
            process.terminate()  # it ends everything that runs on its machine
    assert process.returncode == 0, f"{errors[-4000:]}\nIts files are in {folder}"
    return Chaos(**json.loads(output))


def run_chaos(folder: Path, database: str, vendor: str, kills: int, seed: int) -> Chaos:
    """Kill at random moments until the plan is done; then look for what was lost, doubled or left behind."""
    project, machine = RunProject(folder, None if database == "sqlite" else database), Machine()
    try:
        return _ChaosRun(project, machine, vendor, random.Random(seed)).run(kills)
    finally:
        machine.reboot()
        project.close()


class _ChaosRun:
    def __init__(self, project: RunProject, machine: Machine, vendor: str, chance: random.Random) -> None:
        self._project, self._machine, self._chance = project, machine, chance
        self._agent = project.agents.get_agent(vendor)
        self._folder = project.folder.parent
        self._count: Counter[str] = Counter()
        self._chaos = Chaos(self._count)
        self._runner: Identity = (0, "")
        self._kill: dict[str, Callable[[], bool]] = {
            "runner": self._kill_runner,
            "agent": lambda: self._kill_living(lambda process: process.identity),
            "shim": lambda: self._kill_living(lambda process: process.parent),
            "machine": self._reboot,
        }

    def run(self, kills: int) -> Chaos:
        self._write_plan()
        self._start_runner()
        while (done := self._count["kills"]) < kills:
            self._open_gates(done / kills)
            [target] = self._chance.choices(list(WEIGHTS), list(WEIGHTS.values()))
            if self._kill[target]():
                self._note(f"killed {target}")
                self._count.update(["kills", f"killed_{target}"])
            self._check_runner()
        self._open_gates(1)
        self._finish()
        self._chaos.faults += find_faults(self._project, self._machine, self._count)
        return self._chaos

    # the plan

    def _write_plan(self) -> None:
        tasks = [
            {"name": name, "description": f"Write {name}.txt.", "depends_on": needed, "max_attempts": 1000}
            for name, needed in TASKS.items()
        ]
        self._project.set_plan(tasks, {name: self._build_starts(name) for name in TASKS})

    def _build_starts(self, name: str) -> list[Steps]:
        """Let the first agents of a task end in different ways, each in the middle of its work."""
        endings: list[dict[str, Any]] = [
            {"do": "transient"},
            {"do": "limit", "resets_in": 2},
            {"do": "exit", "code": 1, "text": "I give up.", "is_error": True},
            {"do": "die"},
        ]
        steps = self._build_steps(name)
        drawn = self._chance.sample(endings, 2)
        return [*([*steps[: self._chance.randint(1, 5)], ending] for ending in drawn), steps]

    def _build_steps(self, name: str) -> Steps:
        """Write the lines of a task one by one; the last one only after its gate was opened."""
        steps: Steps = []
        for line in LINES[:-1]:
            steps += [
                {"do": "tool", "detail": f"edit {name}", "seconds": 0.03},
                {"do": "append", "file": f"{name}.txt", "line": f"{name} {line}"},
                {
                    "do": "usage",
                    "input": 100 + len(steps),
                    "cached": 10,
                    "output": 5,
                    "usd_micros": 1000 + len(steps),
                },
            ]
        steps += [{"do": "commit", "message": f"{name} so far"}] if name == "beta" else []
        steps += [{"do": "wait_for", "file": str(self._get_gate(name))}]
        steps += [{"do": "append", "file": f"{name}.txt", "line": f"{name} {LINES[-1]}"}]
        return [*steps, {"do": "exit", "text": f"Wrote {name}.txt."}]

    def _get_gate(self, name: str) -> Path:
        return self._folder / f"{name}.open"

    def _open_gates(self, share: float) -> None:
        for name, moment in OPENED.items():
            if share >= moment and not self._get_gate(name).exists():
                self._note(f"opened {name}")
                self._get_gate(name).touch()

    # the runner

    def _start_runner(self) -> None:
        self._runner = self._machine.start(
            self._project.build_command("--agents", str(AGENTS), "--agent", self._agent),
            cwd=self._project.folder,
            env=self._project.variables,
            stdout=self._folder / "run.jsonl",
            stderr=self._folder / "run.log",
        )
        self._count["starts"] += 1

    def _check_runner(self) -> None:
        """Start the runner again if it was killed; if it ended by itself, that is a fault."""
        code = self._machine.get_code(self._runner)
        if code is None:
            return
        if code >= 0:
            log = (self._folder / "run.log").read_text(errors="replace")[-1000:]
            raise AssertionError(f"the runner ended with {code} before the plan was done: {log}")
        time.sleep(self._chance.uniform(0, 0.3))  # agents go on meanwhile, and some end
        self._start_runner()

    def _finish(self) -> None:
        """Wait until the runner has ended by itself: everything is done."""
        self._machine.wait_until(
            lambda: self._machine.get_code(self._runner) is not None, "the end of the run"
        )
        code = self._machine.get_code(self._runner)
        if code != 0:
            log = (self._folder / "run.log").read_text(errors="replace")[-1000:]
            self._chaos.faults.append(f"the last `deepwork run` ended with {code}: {log}")

    # kills

    def _kill_runner(self) -> bool:
        """Kill it while it starts, or shortly after an agent has started or ended."""
        if self._chance.random() < EARLY:
            time.sleep(self._chance.uniform(0, 1))
        else:
            self._wait_for_news()
            time.sleep(self._chance.uniform(0, 0.3))
        return self._machine.kill(self._runner)

    def _wait_for_news(self) -> None:
        """Wait for the next line of the ledger, but not long: agents may be waiting themselves."""
        end, before = time.monotonic() + 3, self._project.agents.measure_ledger()
        while self._project.agents.measure_ledger() == before and time.monotonic() < end:
            time.sleep(0.01)

    def _kill_living(self, select: Callable[[Process], Identity]) -> bool:
        """Kill an agent, or the process above it."""
        self._machine.wait_until(self._list_living, "an agent to kill")
        time.sleep(self._chance.uniform(0, 0.3))
        living = self._list_living()
        return bool(living) and self._machine.kill(select(self._chance.choice(living)))

    def _list_living(self) -> list[Process]:
        if not is_alive(self._runner):  # it has to be there for an agent to start
            self._check_runner()
        living = [each for each in self._project.agents.read_ledger() if is_alive(each.identity)]
        if len(living) > AGENTS:
            self._chaos.faults.append(f"doubled: {len(living)} agents at the same time instead of {AGENTS}")
        return living

    def _reboot(self) -> bool:
        time.sleep(self._chance.uniform(0, 1))
        return bool(self._machine.reboot())

    def _note(self, text: str) -> None:
        with (self._folder / "notes.txt").open("a") as file:
            file.write(f"{time.monotonic():.3f} {text}\n")


def main(arguments: list[str]) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("Stopped."))
    folder, database, vendor, kills, seed = arguments
    chaos = run_chaos(Path(folder), database, vendor, int(kills), int(seed))
    print(json.dumps({"counts": chaos.counts, "faults": chaos.faults}))


if __name__ == "__main__":
    main(sys.argv[1:])
