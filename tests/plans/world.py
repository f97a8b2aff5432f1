"""Plans in a running deepwork: a test says what the plan is and what is done, the rest is ordinary."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from application import Clock, ask, events
from deepwork.errors import Code, DeepworkError
from deepwork.events.log import Event
from deepwork.server.application import Application

REPORTS = {"completed": {"outcome": "It is done."}, "failed": {"error": "It broke."}}


class World:
    """One app that the tests of a module share: none looks at what it has not made itself."""

    def __init__(self, app: Application, clock: Clock) -> None:
        self.app = app
        self.clock = clock

    def ask(self, tool: str, *, caller: str = "nobody", key: str | None = None, **arguments: Any) -> Any:
        """A tool's answer; the caller has no agent unless a test says who calls."""
        return ask(self.app, tool, key, caller, **arguments)

    def agent(self, *, caller: str = "many", **given: Any) -> str:
        """The id of an agent that has just registered."""
        arguments = {"name": "worker", "runtime": "custom"} | given
        id: str = self.ask("agent_register", caller=caller, **arguments)["id"]
        return id

    def caller(self) -> str:
        """Somebody who never called before."""
        return f"session:{secrets.token_hex(6)}"

    def create(self, **given: Any) -> str:
        """The id of a workflow without a plan."""
        arguments = {"name": "release", "source_type": "prompt", "source_content": "Release it."} | given
        id: str = self.ask("workflow_create", **arguments)["id"]
        return id

    def plan(self, *tasks: str | dict[str, Any], summary: str = "In steps.", **given: Any) -> Plan:
        """A workflow with these tasks; a mere name waits for nothing."""
        id = self.create(**({"max_parallel_tasks": 100} | given))
        written = [{"name": task, "depends_on": []} if isinstance(task, str) else task for task in tasks]
        self.ask("workflow_set_plan", id=id, plan={"summary": summary, "tasks": written})
        return Plan(self, id)

    def silence(self, seconds: float = 91) -> None:
        """Nobody calls for longer than a lease runs."""
        self.clock.advance(seconds=seconds)


class Plan:
    """A workflow with tasks, which go by name."""

    def __init__(self, world: World, id: str) -> None:
        self.world = world
        self.id = id
        self._ids: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        """The id of a task."""
        if name not in self._ids:
            self._ids |= {task["name"]: task["id"] for task in self.tasks()}
        return self._ids[name]

    def get(self, **given: Any) -> Any:
        return self.world.ask("workflow_get", id=self.id, **given)

    @property
    def status(self) -> str:
        status: str = self.get()["status"]
        return status

    def tasks(self, **given: Any) -> list[dict[str, Any]]:
        tasks: list[dict[str, Any]] = self.get(include_tasks=True, task_limit=1000, **given)["tasks"]
        return tasks

    def task(self, name: str, **given: Any) -> dict[str, Any]:
        task: dict[str, Any] = self.world.ask("task_get", id=self[name], **given)
        return task

    def move(self, name: str, status: str, **given: Any) -> Any:
        """Set the status of a task, with what the status needs."""
        arguments = REPORTS.get(status, {}) | given
        return self.world.ask("task_update_status", id=self[name], status=status, **arguments)

    def claim(self, name: str, agent: str, **given: Any) -> Any:
        return self.world.ask("task_claim", task_id=self[name], agent_id=agent, **given)

    def next(self, **given: Any) -> Any:
        return self.world.ask("workflow_next_tasks", workflow_id=self.id, **given)

    def offered(self, **given: Any) -> list[str]:
        """The names of what can be begun now."""
        return [task["name"] for task in self.next(**given)["tasks"]]

    def progress(self, **given: Any) -> Any:
        return self.world.ask("workflow_progress", workflow_id=self.id, **given)

    def dependencies(self, name: str, **given: Any) -> Any:
        return self.world.ask("task_check_dependencies", task_id=self[name], **given)

    def checkpoints(self, name: str, **given: Any) -> list[dict[str, Any]]:
        listed = self.world.ask("checkpoint_list", task_id=self[name], **given)
        checkpoints: list[dict[str, Any]] = listed["checkpoints"]
        return checkpoints

    def history(self) -> list[dict[str, Any]]:
        """What became of it, newest first."""
        history: list[dict[str, Any]] = self.get(include_history=True)["history"]
        return history

    def events(self) -> list[Event]:
        """What has been told of it."""
        return [event for event in events(self.world.app) if event.workflow_id == self.id]

    def told(self) -> list[str]:
        """The names of what has been told of it, in order."""
        return [event.type for event in self.events()]


@contextmanager
def refused(code: Code, match: str | None = None) -> Iterator[None]:
    """What is done in the block is an error with this code."""
    with pytest.raises(DeepworkError, match=match) as caught:
        yield
    assert caught.value.code is code, caught.value.as_dict()
    assert caught.value.suggestion
