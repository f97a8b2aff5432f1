"""Helpers that create plans in a running application, with ordinary defaults for what a test leaves out."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from application import Clock, call_tool, list_events
from deepwork.edge.server.application import Application
from deepwork.kernel.errors import Code, DeepworkError
from deepwork.kernel.events.log import Event

REPORTS = {"completed": {"outcome": "It is done."}, "failed": {"error": "It broke."}}


class World:
    """One application shared by the tests of a module; each test looks only at what it created itself."""

    def __init__(self, app: Application, clock: Clock) -> None:
        self.app = app
        self.clock = clock

    def call(self, tool: str, *, caller: str = "nobody", key: str | None = None, **arguments: Any) -> Any:
        """Call a tool and return its answer; the default caller has no agent."""
        return call_tool(self.app, tool, key, caller, **arguments)

    def register_agent(self, *, caller: str = "many", **given: Any) -> str:
        """Register an agent and return its id."""
        arguments = {"name": "worker", "runtime": "custom"} | given
        id: str = self.call("agent_register", caller=caller, **arguments)["id"]
        return id

    def new_caller(self) -> str:
        """Return a caller that has never called before."""
        return f"session:{secrets.token_hex(6)}"

    def create_workflow(self, **given: Any) -> str:
        """Create a workflow without a plan and return its id."""
        arguments = {"name": "release", "source_type": "prompt", "source_content": "Release it."} | given
        id: str = self.call("workflow_create", **arguments)["id"]
        return id

    def create_plan(self, *tasks: str | dict[str, Any], summary: str = "In steps.", **given: Any) -> Plan:
        """Create a workflow with these tasks; a task given as a string waits for nothing."""
        id = self.create_workflow(**({"max_parallel_tasks": 100} | given))
        written = [{"name": task, "depends_on": []} if isinstance(task, str) else task for task in tasks]
        self.call("workflow_set_plan", id=id, plan={"summary": summary, "tasks": written})
        return Plan(self, id)

    def let_leases_expire(self, seconds: float = 91) -> None:
        """Advance the clock by more than a lease."""
        self.clock.advance(seconds=seconds)


class Plan:
    """A workflow whose tasks are addressed by name."""

    def __init__(self, world: World, id: str) -> None:
        self.world = world
        self.id = id
        self._ids: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        """Return the id of a task."""
        if name not in self._ids:
            self._ids |= {task["name"]: task["id"] for task in self.list_tasks()}
        return self._ids[name]

    def get(self, **given: Any) -> Any:
        return self.world.call("workflow_get", id=self.id, **given)

    @property
    def status(self) -> str:
        status: str = self.get()["status"]
        return status

    def list_tasks(self, **given: Any) -> list[dict[str, Any]]:
        tasks: list[dict[str, Any]] = self.get(include_tasks=True, task_limit=1000, **given)["tasks"]
        return tasks

    def get_task(self, name: str, **given: Any) -> dict[str, Any]:
        task: dict[str, Any] = self.world.call("task_get", id=self[name], **given)
        return task

    def set_status(self, name: str, status: str, **given: Any) -> Any:
        """Set the status of a task, with the outcome or error that the status requires."""
        arguments = REPORTS.get(status, {}) | given
        return self.world.call("task_update_status", id=self[name], status=status, **arguments)

    def claim(self, name: str, agent: str, **given: Any) -> Any:
        return self.world.call("task_claim", task_id=self[name], agent_id=agent, **given)

    def get_next_tasks(self, **given: Any) -> Any:
        return self.world.call("workflow_next_tasks", workflow_id=self.id, **given)

    def list_offered(self, **given: Any) -> list[str]:
        """Return the names of the tasks that can start now."""
        return [task["name"] for task in self.get_next_tasks(**given)["tasks"]]

    def get_progress(self, **given: Any) -> Any:
        return self.world.call("workflow_progress", workflow_id=self.id, **given)

    def get_dependencies(self, name: str, **given: Any) -> Any:
        return self.world.call("task_check_dependencies", task_id=self[name], **given)

    def list_checkpoints(self, name: str, **given: Any) -> list[dict[str, Any]]:
        listed = self.world.call("checkpoint_list", task_id=self[name], **given)
        checkpoints: list[dict[str, Any]] = listed["checkpoints"]
        return checkpoints

    def list_history(self) -> list[dict[str, Any]]:
        """Return the history, newest first."""
        history: list[dict[str, Any]] = self.get(include_history=True)["history"]
        return history

    def list_events(self) -> list[Event]:
        """Return the events of the workflow."""
        return [event for event in list_events(self.world.app) if event.workflow_id == self.id]

    def list_event_types(self) -> list[str]:
        """Return the types of the workflow's events, in order."""
        return [event.type for event in self.list_events()]


@contextmanager
def expect_error(code: Code, match: str | None = None) -> Iterator[None]:
    """Expect the block to raise an error with this code."""
    with pytest.raises(DeepworkError, match=match) as caught:
        yield
    assert caught.value.code is code, caught.value.to_dict()
    assert caught.value.suggestion
