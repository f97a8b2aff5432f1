"""What must hold after a run, whatever was killed meanwhile."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from application import list_events
from runner.fake_streams import Used
from runner.person_checkout import list_differences
from runner.played_machine import Machine
from runner.run_project import RunProject, read_events
from runner.scripted import Process, list_possible_sums
from workspaces.make import run_git

LINES = ("one", "two", "three")
"""What each task adds to its file."""


def find_faults(project: RunProject, machine: Machine, counts: Counter[str]) -> list[str]:
    """List everything that is not as it must be."""
    processes, attempts = project.agents.read_ledger(), list_attempts(project)
    counts.update(tasks=len(project.ids), attempts=len(attempts), agents=len(processes))
    return [
        *find_orphans(machine),
        *find_unfinished(project),
        *find_done_twice(project, attempts),
        *find_overlaps(processes),
        *find_wrong_places(processes),
        *find_wrong_spend(project, attempts, processes),
        *find_wrong_trees(project, attempts),
        *list_differences(project.fingerprint, project.folder),
        *find_wrong_output(project.folder.parent),
    ]


def find_orphans(machine: Machine) -> Iterator[str]:
    """Nothing runs any more."""
    try:
        machine.wait_until(lambda: not machine.list_processes(), "the end of all processes")
    except AssertionError as error:
        yield f"orphans: {error}"
        machine.reboot()


def find_unfinished(project: RunProject) -> Iterator[str]:
    """No task is lost."""
    for task in project.list_tasks():
        if task["status"] != "completed":
            yield f"lost: task {task['name']} is {task['status']}"
        if task.get("claimed_by"):
            yield f"lost: task {task['name']} is still claimed"


def find_done_twice(project: RunProject, attempts: list[dict[str, Any]]) -> Iterator[str]:
    """Each task was completed once, by one attempt."""
    events = [event for event in list_events(project.app) if event.type == "plan_task:updated"]
    for name, id in project.ids.items():
        of_task = [event.data for event in events if event.data["id"] == id]
        before = None
        times = 0
        for data in of_task:
            times += data["status"] == "completed" != before
            before = data["status"]
        if times != 1:
            yield f"doubled: task {name} was completed {times} times"
        done = [each["id"] for each in attempts if each["task_id"] == id and each["stage"] == "done"]
        if len(done) != 1:
            yield f"doubled: task {name} has {len(done)} attempts that are done: {done}"
    for each in attempts:
        if each["ended_at"] is None:
            yield f"lost: attempt {each['id']} is still {each['stage']}"


def find_overlaps(processes: list[Process]) -> Iterator[str]:
    """No two agents were alive for one task at the same time, and none was started twice for one start."""
    for process in processes:
        for other in process.overlaps:
            yield f"doubled: agents {process.pid} and {other} worked on {process.name} at the same time"
    sessions = Counter(
        (each.start["session"], each.start["attempt"]) for each in processes if not each.start["resumed"]
    )
    for (session, attempt), count in sessions.items():
        if count > 1:
            yield f"doubled: session {session} of attempt {attempt} was begun {count} times"


def find_wrong_places(processes: list[Process]) -> Iterator[str]:
    """Every process knew for which attempt it works, in a tree of its task."""
    trees: dict[str, set[str]] = {}
    for process in processes:
        if not (process.start["attempt"] and process.start["run"] and process.start["task"]):
            yield f"damaged: agent {process.pid} was started without its variables: {process.start['deepwork']}"
        trees.setdefault(process.start["cwd"], set()).add(process.name)
    for tree, names in trees.items():
        if len(names) > 1:
            yield f"doubled: {sorted(names)} were worked on in one tree, {tree}"


def find_wrong_spend(
    project: RunProject, attempts: list[dict[str, Any]], processes: list[Process]
) -> Iterator[str]:
    """What is stored is what the agents reported."""
    for attempt in attempts:
        own = [process for process in processes if process.start["attempt"] == attempt["id"]]
        stored = Used(
            attempt["input_tokens"], attempt["cached_tokens"], attempt["output_tokens"], attempt["usd_micros"]
        )
        if stored not in (possible := list_possible_sums(own)):
            yield f"spend: attempt {attempt['id']} has {stored}; its agents reported {possible}"
    spending = list_spending(project)
    for name, id in project.ids.items():
        of_attempts = [_get_total(each) for each in attempts if each["task_id"] == id]
        expected = tuple(map(sum, zip(*of_attempts, strict=True))) or (0, 0)
        if spending.get(id, (0, 0)) != expected:
            yield f"spend: task {name} has {spending.get(id)}; its attempts have {expected}"


def _get_total(attempt: dict[str, Any]) -> tuple[int, int]:
    """Return the tokens and the money of an attempt."""
    tokens = attempt["input_tokens"] + attempt["cached_tokens"] + attempt["output_tokens"]
    return tokens, attempt["usd_micros"]


def find_wrong_trees(project: RunProject, attempts: list[dict[str, Any]]) -> Iterator[str]:
    """The branch of each task has each of its changes once, and those of the tasks before it."""
    branches = {each["task_id"]: each["branch"] for each in attempts if each["branch"]}
    for name, id in project.ids.items():
        if id not in branches:
            yield f"lost: task {name} has no branch"
            continue
        text = _show(project.folder, branches[id], f"{name}.txt")
        if text != "".join(f"{name} {line}\n" for line in LINES):
            yield f"lost: {name}.txt on {branches[id]} is {text!r}"
        added = _count_added_lines(project.folder, [*branches.values()], f"{name}.txt")
        yield from (
            f"doubled: {line!r} was committed {count} times" for line, count in added.items() if count != 1
        )


def find_wrong_output(folder: Path) -> Iterator[str]:
    """`--json` printed events, and nothing was raised."""
    events, wrong = read_events(folder / "run.jsonl")
    for line in wrong:
        if "}{" not in line and line.startswith("{"):  # a kill may cut a line in two
            continue
        yield f"damaged: --json printed {line[:200]!r}"
    for event in events:
        if not {"type", "id"} <= event.keys():
            yield f"damaged: --json printed {json.dumps(event)[:200]}"
    log = (folder / "run.log").read_text(errors="replace")
    if "Traceback" in log:
        yield f"internal error: {log[log.index('Traceback') :][-1500:]}"


def list_attempts(project: RunProject) -> list[dict[str, Any]]:
    """List all attempts as they are stored."""
    with project.app.database.reading() as tx:
        return [dict(row) for row in tx.fetch_all("SELECT * FROM attempts ORDER BY created_at, id")]


def list_spending(project: RunProject) -> dict[str, tuple[int, int]]:
    """Return the tokens and the money of each task, from the table of all spending."""
    sql = (
        "SELECT task_id, sum(tokens) AS tokens, sum(usd_micros) AS usd_micros FROM spending GROUP BY task_id"
    )
    with project.app.database.reading() as tx:
        return {row["task_id"]: (int(row["tokens"]), int(row["usd_micros"])) for row in tx.fetch_all(sql)}


def _show(folder: Path, branch: str, file: str) -> str:
    try:
        return run_git(folder, "show", f"{branch}:{file}") + "\n"
    except Exception as error:  # noqa: BLE001 - a missing file is a fault, and is described
        return str(error)


def _count_added_lines(folder: Path, branches: list[str], file: str) -> Counter[str]:
    """Count how often each line was added to a file, over all commits of these branches."""
    log = run_git(folder, "log", "--no-merges", "--format=", "-p", *branches, "--", file)
    return Counter(
        line[1:] for line in log.splitlines() if line.startswith("+") and not line.startswith("+++")
    )
