"""Measures jobs: projects with many jobs, workflows with many steps."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from clients import Caller, StdioClient

COUNTS = (1, 50, 500)
LENGTHS = (5, 200)
TARGETS = {"get_workflows (500 jobs)": 10.0, "finished_step (5 steps)": 6.0, "finished_step (200 steps)": 6.0}
"""The highest ratio of a median to the echo's."""


def write_job(root: Path, name: str, length: int) -> None:
    """Write a job with one workflow, each step of which delivers the same file."""
    folder = root / ".deepwork" / "jobs" / name
    (folder / "steps").mkdir(parents=True)
    (folder / "steps" / "do.md").write_text("Do it.\n" * 20)
    out = {"out": {"type": "file", "description": "what was done", "required": True}}
    steps = [
        {
            "id": f"s{number}",
            "name": f"Step {number}",
            "description": "a step",
            "instructions_file": "steps/do.md",
            "outputs": out,
            "reviews": [],
        }
        for number in range(length)
    ]
    workflow = {"name": "main", "summary": "all of it", "steps": [step["id"] for step in steps]}
    about = {"version": "1.0.0", "common_job_info_provided_to_all_steps_at_runtime": "A job to be measured."}
    definition = {"name": name, "summary": "measured", **about, "steps": steps, "workflows": [workflow]}
    (folder / "job.yml").write_text(json.dumps(definition, indent=1))


def create_project(folder: Path, count: int) -> Path:
    root = folder / f"{count}-jobs"
    for number in range(count):
        write_job(root, f"job_{number}", 5)
    return root


class Runner:
    """Runs through a workflow, and restarts it at its end."""

    def __init__(self, caller: Caller, job: str) -> None:
        self._caller, self._job = caller, job
        self._is_running = False

    def start(self) -> None:
        given = {"goal": "measure", "job_name": self._job, "workflow_name": "main"}
        self._id = self._caller.call("start_workflow", given)["begin_step"]["session_id"]
        self._is_running = True

    def prepare(self) -> None:
        if not self._is_running:
            self.start()

    def finish(self) -> None:
        answer = self._caller.call("finished_step", {"outputs": {"out": "out.md"}, "session_id": self._id})
        self._is_running = answer["status"] == "next_step"

    def abort(self) -> None:
        if self._is_running:
            self._caller.call("abort_workflow", {"explanation": "measured", "session_id": self._id})
            self._is_running = False


def measure(folder: Path, rounds: int, count: int, echo: Caller) -> dict[str, list[float]]:
    """Measure milliseconds by row; the rows take turns with the echo."""
    took: dict[str, list[float]] = {"bare echo (jobs)": []}
    opened = []
    work: dict[str, tuple[Callable[[], Any], Callable[[], Any], Callable[[], Any]]] = {}

    def nothing() -> None: ...

    for number in COUNTS:
        root = create_project(folder, number)
        caller = StdioClient("-m", "deepwork", "serve", "--path", str(root))
        opened.append(caller)
        listing = partial(caller.call, "get_workflows", {})
        took[f"get_workflows ({number} jobs), first"] = [_measure_ms(listing)]
        work[f"get_workflows ({number} jobs)"] = (nothing, listing, nothing)
    root = folder / "steps"
    for length in LENGTHS:
        write_job(root, f"long_{length}", length)
    (root / "out.md").write_text("done")
    caller = StdioClient("-m", "deepwork", "serve", "--path", str(root))
    opened.append(caller)
    starter = Runner(caller, "long_5")
    work["start_workflow"] = (nothing, starter.start, starter.abort)
    for length in LENGTHS:
        runner = Runner(caller, f"long_{length}")
        work[f"finished_step ({length} steps)"] = (runner.prepare, runner.finish, nothing)
    work["bare echo (jobs)"] = (nothing, lambda: echo.call("echo", {"text": "hello"}), nothing)
    for number in range(rounds + 1):  # the first round warms up
        for name, (before, call, after) in work.items():
            for _ in range(count):
                before()
                spent = _measure_ms(call)
                after()
                if number:
                    took.setdefault(name, []).append(spent)
    for each in opened:
        each.close()
    return took


def _measure_ms(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1000
