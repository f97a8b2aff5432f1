"""Eight processes change, approve and pass one plan, task and step at once: nothing passes unseen."""

from __future__ import annotations

import json
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from application import call_tool, make_app
from approvals.race import take_part
from deepwork.edge.server.application import Application
from jobs.project import make_step, write_files, write_job
from jobs.runs import start_job

ROLES = ("replan", "replan", "claim", "report", "report", "finish", "decide", "decide")
OTHERS = sum(role != "decide" for role in ROLES)
ROUNDS = 3


@pytest.mark.differs
def test_only_content_that_a_person_approved_passes(tmp_path: Path, location: str) -> None:
    app = make_app(tmp_path, location, git_branch="off")
    plan = set_plan(app, {"summary": "s", "tasks": [{"name": "first"}], "approve_plan": True})
    work = set_plan(app, {"summary": "s", "tasks": [{"name": "write", "approval": "after"}]})
    [task] = call_tool(app, "workflow_get", id=work, include_tasks=True)["tasks"]
    step = start_step(app, tmp_path)
    subjects = {"replan": plan, "claim": plan, "report": task["id"], "finish": step, "decide": "-"}
    entries = [(role, subjects[role], f"{role}{number}") for number, role in enumerate(ROLES)]

    passed = run_processes(tmp_path, location, entries)

    shown = read_decided(app)
    assert passed["claim"] <= {name for each in shown["plan"] for name in list_names(each["tasks"])}
    assert passed["finish"] <= {each["outputs"]["plan.md"]["text"] for each in shown["step"]}
    written = call_tool(app, "task_get", id=task["id"])
    if written["status"] == "completed":
        assert written["outcome"] in {each["outcome"] for each in shown["task"]}
    app.close()


def set_plan(app: Application, plan: dict[str, Any]) -> str:
    created = call_tool(app, "workflow_create", name="Race", source_type="prompt", source_content="x")
    call_tool(app, "workflow_set_plan", id=created["id"], plan=plan)
    id: str = created["id"]
    return id


def start_step(app: Application, folder: Path) -> str:
    output = {"plan.md": {"type": "file", "description": "the plan", "required": True}}
    write_job(folder, "chain", [make_step("a", output, approval={"of": ["plan.md"]}), make_step("b")])
    write_files(folder, "plan.md", "b.md")
    return start_job(app)


def run_processes(folder: Path, location: str, entries: list[tuple[str, str, str]]) -> dict[str, set[str]]:
    """Run each participant in a process of its own; all fork from one that has imported the program."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["approvals.race"])
    with ProcessPoolExecutor(len(entries), mp_context=context) as pool:
        running = [
            pool.submit(take_part, str(folder), location, role, subject, name, ROUNDS, OTHERS)
            for role, subject, name in entries
        ]
        return merge(entries, [each.result(timeout=240) for each in running])


def merge(entries: list[tuple[str, str, str]], seen: list[list[str]]) -> dict[str, set[str]]:
    passed: dict[str, set[str]] = {role: set() for role in ROLES}
    for (role, _, _), names in zip(entries, seen, strict=True):
        passed[role] |= set(names)
    return passed


def read_decided(app: Application) -> dict[str, list[Any]]:
    """Return what people approved, by the kind of its subject; no subject has two requests that wait."""
    with app.database.reading() as tx:
        rows = tx.fetch_all("SELECT subject_kind, shown, status, decided_at FROM approvals")
    waiting = [row["subject_kind"] for row in rows if row["status"] == "pending"]
    assert len(waiting) == len(set(waiting))
    decided: dict[str, list[Any]] = {"plan": [], "task": [], "step": []}
    for row in rows:
        if row["decided_at"] is not None:
            decided[row["subject_kind"]].append(json.loads(row["shown"]))
    return decided


def list_names(tasks: list[dict[str, str]]) -> list[str]:
    return [task["name"] for task in tasks]
