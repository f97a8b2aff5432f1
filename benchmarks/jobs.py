"""Measures jobs: projects with many jobs, workflows with many steps."""

from __future__ import annotations

import json
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from benchmarks.clients import COMMIT, HELLO, RAW, SERVE, Caller, StdioClient
from benchmarks.timing import Effort, Samples, Work, measure_ms

COUNTS = (1, 50, 500)
LENGTHS = (5, 200)
LIMIT = "a limit of 150 ms"
Steps = tuple[Work, Work, Work]
"""What is done before a call, the call, and what is done after it; only the call is measured."""


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


def measure_jobs(effort: Effort) -> Samples:
    """Measure listing and running jobs, in turns with the raw echo."""
    took: Samples = {}
    with ExitStack() as stack:
        floors = {"raw call": (RAW,), "commit": (COMMIT, str(effort.make_folder("jobs") / "floor.db"))}
        work: dict[str, Steps] = {}
        for name, command in floors.items():
            floor = stack.enter_context(StdioClient(*command))
            work[name] = (_skip, partial(floor.call, *HELLO), _skip)
        for number in COUNTS:
            root = create_project(effort.folder / "jobs", number)
            caller = stack.enter_context(StdioClient(*SERVE, str(root)))
            listing = partial(caller.call, "get_workflows", {})
            if number == COUNTS[0]:
                firsts = [_measure_first_listing(root) for _ in range(effort.starts)]
                took |= {LIMIT: [150.0], f"get_workflows ({number} jobs), first": firsts}
            work[f"get_workflows ({number} jobs)"] = (_skip, listing, _skip)
        root = effort.make_folder("steps")
        caller = stack.enter_context(StdioClient(*SERVE, str(root)))
        return took | _measure_steps(work | _list_runs(caller, root), effort)


def _measure_first_listing(root: Path) -> float:
    """Measure what the first listing of a new server takes."""
    with StdioClient(*SERVE, str(root)) as caller:
        return measure_ms(partial(caller.call, "get_workflows", {}))


def _list_runs(caller: Caller, root: Path) -> dict[str, Steps]:
    for length in LENGTHS:
        write_job(root, f"long_{length}", length)
    (root / "out.md").write_text("done")
    starter = Runner(caller, "long_5")
    work: dict[str, Steps] = {"start_workflow": (_skip, starter.start, starter.abort)}
    for length in LENGTHS:
        runner = Runner(caller, f"long_{length}")
        work[f"finished_step ({length} steps)"] = (runner.prepare, runner.finish, _skip)
    return work


def _measure_steps(work: dict[str, Steps], effort: Effort) -> Samples:
    took: Samples = {name: [] for name in work}
    rounds = max(1, effort.rounds // 3)
    for number in range(rounds + 1):  # the first round warms up
        for name, (before, call, after) in work.items():
            for _ in range(effort.calls):
                before()
                spent = measure_ms(call)
                after()
                if number:
                    took[name].append(spent)
    return took


def _skip() -> None: ...
