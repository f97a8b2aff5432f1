"""One kill at every system call that writes, of a claim and of a finished step: the call happened once, or not at all."""

from __future__ import annotations

import shutil
import signal
from abc import ABC, abstractmethod
from collections import Counter
from pathlib import Path
from typing import Any

from application import call_tool, list_event_types, make_app
from chaos.effects import find_damage, is_without_gaps
from chaos.strace import WRITES, count_changes, kill_at
from chaos.workers import Worker
from deepwork.edge.server.application import Application
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


def kill_at_every_write(folder: Path, worker: Worker, scene: Scene) -> Result:
    """Kill the call at each of its writes, on a copy of the same store."""
    killing = Killing(folder, worker, scene)
    for call in sorted(killing.count_writes()):
        number = 1
        while killing.kill_at(call, number):
            number += 1
    return killing.result


def kill_at_some_writes(folder: Path, worker: Worker, scene: Scene, every: int) -> Result:
    """Kill the call only at every n-th of its writes."""
    killing = Killing(folder, worker, scene)
    counts = sorted(killing.count_writes().items())
    points = [(call, number) for call, count in counts for number in range(1, count + 1)]
    for call, number in points[::every]:
        killing.kill_at(call, number)
    return killing.result


class Killing:
    """Kills one call again and again, each time on a new copy of the same store."""

    def __init__(self, folder: Path, worker: Worker, scene: Scene) -> None:
        self._folder, self._worker, self._scene = folder, worker, scene
        self._base = folder / "base"
        self._base.mkdir()
        scene.build(self._base)
        self._tool, self._arguments = scene.get_call()
        self.result = Result()

    def count_writes(self) -> Counter[str]:
        """Make the call once without a kill; count its system calls that write."""
        self._order("counted")
        return count_changes(self._worker, self._folder / "trace", WRITES)

    def kill_at(self, call: str, number: int) -> bool:
        """Kill the call at its n-th system call of this name, and check the store; False if it has fewer."""
        point = f"{call} {number}"
        project = self._order(point.replace(" ", "-"))
        outcome = kill_at(self._worker, self._folder / "trace", call, number)
        if outcome.signal != signal.SIGKILL:
            self.result.faults += [f"{point}: {outcome}"] * (not outcome.is_well)
            return False
        self.result.count(kills=1)
        app = open_app(project)
        self._repeat(app, point)
        gaps = [] if is_without_gaps(app) else ["events have gaps"]
        self.result.report("damaged", [f"{point}: {each}" for each in [*gaps, *find_damage(app)]])
        app.close()
        return True

    def _order(self, name: str) -> Path:
        """Let the worker wait to make the call in a copy of the project."""
        project = self._folder / name
        shutil.copytree(self._base, project)
        order = {"tool": self._tool, "key": KEY, "arguments": self._arguments}
        self._worker.order("call_once", project=str(project), **order)
        return project

    def _repeat(self, app: Application, point: str) -> None:
        before = self._scene.look(app)
        call_tool(app, self._tool, KEY, **self._arguments)
        after = self._scene.look_later(app)
        self.result.count(calls=2, acknowledged=1, survived=before[0])
        fault = [f"{point}: {before} before the repeated call, {after} after it"]
        self.result.report("damaged", fault * (set(before) not in ({0}, {1})))
        self.result.report("lost", fault * (min(after) < 1))
        self.result.report("doubled", fault * (max(after) > 1))


def open_app(project: Path) -> Application:
    return make_app(project, str(project / "deepwork.db"), lease_seconds=A_DAY, git_branch="off")
