"""One kill at every system call that writes, of a claim and of a finished step: the call happened once, or not at all."""

from __future__ import annotations

import shutil
import signal
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from application import call_tool, list_event_types, make_app
from chaos.effects import find_damage, is_without_gaps
from chaos.strace import WRITES, count_changes, kill_at
from chaos.workers import Worker
from deepwork.server.application import Application
from jobs import project as jobs
from reliability.claims import create_plans
from reliability.result import Result

A_DAY = 86_400
KEY = "the call that is killed"


class Scene(ABC):
    """A store before a call, and what the call changes in it."""

    @abstractmethod
    def build(self, project: Path) -> None:
        """Create the store."""

    @abstractmethod
    def get_call(self) -> tuple[str, dict[str, Any]]:
        """Return the tool and its arguments."""

    @abstractmethod
    def look(self, app: Application) -> list[int]:
        """Return how often each effect of the call is stored: after a kill only zeros or only ones."""

    def look_later(self, app: Application) -> list[int]:
        """Return what must be there once, after the call was repeated."""
        return self.look(app)


class Claim(Scene):
    """An agent claims a task."""

    def build(self, project: Path) -> None:
        app = open_app(project)
        self._agent = call_tool(app, "agent_register", name="Ada", runtime="custom")["id"]
        [plan] = create_plans(app, 3)
        self._task = call_tool(app, "workflow_next_tasks", workflow_id=plan)["tasks"][0]["id"]
        app.close()

    def get_call(self) -> tuple[str, dict[str, Any]]:
        return "task_claim", {"task_id": self._task, "agent_id": self._agent}

    def look(self, app: Application) -> list[int]:
        with app.database.reading() as tx:
            claims = tx.fetch_value("SELECT count(*) FROM plan_claims")
            held = tx.fetch_value("SELECT count(*) FROM leases WHERE who IS NOT NULL")
        return [claims, held, list_event_types(app).count("plan_task:claimed")]


class FinishedStep(Scene):
    """An agent finishes the first of three steps of a job."""

    def build(self, project: Path) -> None:
        jobs.write_job(project, "chain", [jobs.make_step(name) for name in ("first", "second", "third")])
        jobs.write_files(project, "first.md", "second.md", "third.md")
        app = open_app(project)
        started = call_tool(app, "start_workflow", goal="g", job_name="chain", workflow_name="main")
        self._session: str = started["begin_step"]["session_id"]
        app.close()

    def get_call(self) -> tuple[str, dict[str, Any]]:
        return "finished_step", {"outputs": {"first.md": "first.md"}, "session_id": self._session}

    def look(self, app: Application) -> list[int]:
        session = call_tool(app, "get_session", session_id=self._session)["session"]
        finished = sum(step["completed_at"] is not None for step in session["step_progress"].values())
        return [session["current_entry_index"], finished]

    def look_later(self, app: Application) -> list[int]:
        # The session's file is written first; who repeats the call makes up for the event.
        return [*self.look(app), list_event_types(app).count("session:updated")]


SCENES: dict[str, type[Scene]] = {"claim": Claim, "step": FinishedStep}


def kill_at_every_write(folder: Path, worker: Worker, scene: Scene, every: int = 1) -> Result:
    """Kill the call at each of its writes, on a copy of the same store; with `every`, only at some of them."""
    result = Result()
    (base := folder / "base").mkdir()
    scene.build(base)
    tool, arguments = scene.get_call()
    order: dict[str, Any] = {"do": "call_once", "tool": tool, "key": KEY, "arguments": arguments}
    worker.order(**order, project=str(_copy(base, folder / "counted")))
    for call in sorted(count_changes(worker, folder / "trace", WRITES)):
        number = 1
        while _kill_once(
            result, _copy(base, folder / f"{call}-{number}"), worker, scene, order, (call, number)
        ):
            number += every
    return result


def _kill_once(
    result: Result, project: Path, worker: Worker, scene: Scene, order: dict[str, Any], point: tuple[str, int]
) -> bool:
    """Kill the call at one system call, and check the store; return False if it ended before."""
    worker.order(**order, project=str(project))
    outcome = kill_at(worker, project.parent / "trace", *point)
    if outcome.signal != signal.SIGKILL:
        result.faults += [f"{point}: {outcome}"] * (not outcome.is_well)
        return False
    result.count(kills=1, calls=2)
    app = open_app(project)
    before = scene.look(app)
    whole = set(before) in ({0}, {1})
    result.report("damaged", [f"{point}: half of the call is stored: {before}"] * (not whole))
    call_tool(app, order["tool"], KEY, **order["arguments"])
    after = scene.look_later(app)
    result.count(acknowledged=1, survived=before[0])
    result.report(
        "lost", [f"{point}: {before} before the repeated call, {after} after it"] * (min(after) < 1)
    )
    result.report(
        "doubled", [f"{point}: {before} before the repeated call, {after} after it"] * (max(after) > 1)
    )
    gaps = [] if is_without_gaps(app) else [f"{point}: events have gaps"]
    result.report("damaged", [*gaps, *map(str, find_damage(app))])
    app.close()
    return True


def open_app(project: Path) -> Application:
    return make_app(project, str(project / "deepwork.db"), lease_seconds=A_DAY, git_branch="off")


def _copy(base: Path, to: Path) -> Path:
    shutil.copytree(base, to)
    return to
