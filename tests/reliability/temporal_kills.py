"""A run with Temporal in which workers, shims and agents are killed at random moments."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from deepwork.delivery.runner.models import RunRequest, RunStatus
from deepwork.delivery.runner.store import RunStore
from deepwork.delivery.runner.temporal import TemporalPlace, start_workflow
from deepwork.delivery.runner.temporal_workflow import RunInput
from quick import PLAIN
from reliability.result import Result
from reliability.runs import KINDS
from runner.endings import list_living, wait_until
from runner.person_checkout import list_differences
from runner.played_machine import Identity, is_alive
from runner.run_invariants import (
    LINES,
    find_done_twice,
    find_overlaps,
    find_unfinished,
    find_wrong_places,
    find_wrong_spend,
    find_wrong_trees,
    list_attempts,
)
from runner.run_project import RunProject
from runner.scripted import Steps
from runner.temporal_server import TemporalWorkers, run_temporal

TASKS: dict[str, list[str]] = {"alpha": [], "beta": [], "gamma": ["alpha"], "delta": ["alpha", "beta"]}
WEIGHTS = {"worker": 60, "agent": 20, "shim": 20}
WORKERS = 2


def kill_temporal_workers(folder: Path, kills: int, seed: int) -> Result:
    """Let two workers work on a plan, kill at random moments, and compare the end with the agents' own ledger."""
    project, result = RunProject(folder), Result()
    try:
        with run_temporal(folder) as address:
            _TemporalChaos(project, address, random.Random(seed), result).run(kills)
        for fault in _find_faults(project, result):
            result.report(KINDS.get(fault.partition(":")[0], "damaged"), [fault])
    finally:
        project.close()
    return result


def _find_faults(project: RunProject, result: Result) -> Iterator[str]:
    processes, attempts = project.agents.read_ledger(), list_attempts(project)
    result.count(
        lost=0, doubled=0, damaged=0, tasks=len(TASKS), attempts=len(attempts), agents=len(processes)
    )
    yield from (f"orphans: agent {each.pid} runs" for each in list_living(project))
    yield from find_unfinished(project)
    yield from find_done_twice(project, attempts)
    yield from find_overlaps(processes)
    yield from find_wrong_places(processes)
    yield from find_wrong_spend(project, attempts, processes)
    yield from find_wrong_trees(project, attempts)
    yield from list_differences(project.fingerprint, project.folder)


class _TemporalChaos:
    def __init__(self, project: RunProject, address: str, chance: random.Random, result: Result) -> None:
        self._project, self._address, self._chance, self._result = project, address, chance, result
        self._crew = TemporalWorkers(project, address)
        self._workers: list[subprocess.Popen[str]] = []

    def run(self, kills: int) -> None:
        run_id = self._start()
        try:
            while self._result.counts["kills"] < kills:
                self._open_gates(self._result.counts["kills"] / kills)
                time.sleep(self._chance.uniform(0, 1.5))
                [target] = self._chance.choices(list(WEIGHTS), list(WEIGHTS.values()))
                if self._kill(target):
                    self._result.count(kills=1, **{f"killed_{target}": 1})
                self._replace_workers()
            self._open_gates(1)
            wait_until(lambda: self._has_ended(run_id), "the end of the run", seconds=600)
        finally:
            self._crew.end()

    def _start(self) -> str:
        tasks = [
            {"name": name, "description": "", "depends_on": needed, "max_attempts": 1000}
            for name, needed in TASKS.items()
        ]
        self._project.set_plan(tasks, {name: [self._build_steps(name)] for name in TASKS})
        self._replace_workers()
        agent = self._project.agents.get_agent("command")
        run = self._project.app.runner.start_plan(
            self._project.plan, RunRequest(agents=(agent,)), is_local=False
        )
        start_workflow(TemporalPlace(self._address), RunInput(run.id, WORKERS, heartbeat_seconds=2))
        return run.id

    def _build_steps(self, name: str) -> Steps:
        lines: Steps = [{"do": "append", "file": f"{name}.txt", "line": f"{name} {line}"} for line in LINES]
        gate = {"do": "wait_for", "file": str(self._get_gate(name))}
        return [*lines[:-1], gate, lines[-1], {"do": "exit", "text": f"Wrote {name}.txt."}]

    def _get_gate(self, name: str) -> Path:
        return self._project.folder.parent / f"{name}.open"

    def _open_gates(self, share: float) -> None:
        """Let one task after the other end, so that there is always somebody to kill."""
        for place, name in enumerate(TASKS, 1):
            if share >= place / len(TASKS):
                self._get_gate(name).touch()

    def _replace_workers(self) -> None:
        self._workers = [worker for worker in self._workers if worker.poll() is None]
        while len(self._workers) < WORKERS:
            self._workers.append(self._crew.start(PLAIN))

    def _kill(self, target: str) -> bool:
        if target == "worker":
            worker = self._chance.choice(self._workers)
            worker.kill()
            worker.wait()
            return True
        living = list_living(self._project)
        if not living:
            return False
        chosen = self._chance.choice(living)
        return _kill_process(chosen.identity if target == "agent" else chosen.parent)

    def _has_ended(self, run_id: str) -> bool:
        with self._project.app.database.reading() as tx:
            run = RunStore(tx).find(run_id)
        return run is not None and run.status is RunStatus.DONE


def _kill_process(identity: Identity) -> bool:
    if identity[0] <= 1 or not is_alive(identity):
        return False
    os.kill(identity[0], signal.SIGKILL)
    return True
