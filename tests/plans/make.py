"""Factories for plan models, with ordinary defaults for what a test leaves out."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from application import NOW
from deepwork.work.plans.models import (
    FileConflicts,
    Node,
    Outline,
    PlanStatus,
    SourceType,
    Task,
    TaskStatus,
    Workflow,
)


def make_node(
    name: str, status: str = "pending", *, depends_on: Iterable[str] | None = None, **given: Any
) -> Node:
    """Make a graph node whose name is its id."""
    waits_for = None if depends_on is None else frozenset(depends_on)
    return Node(**({"id": name, "name": name, "status": TaskStatus(status), "depends_on": waits_for} | given))


def make_outline(name: str, *, depends_on: Iterable[str] | None = None, **given: Any) -> Outline:
    """Make a task outline."""
    return Outline(name, depends_on=None if depends_on is None else tuple(depends_on), **given)


def make_task(name: str = "build", status: str = "pending", **given: Any) -> Task:
    """Make a task that is not stored."""
    ordinary: dict[str, Any] = {
        "id": f"tk_{name}",
        "workflow_id": "wf_1",
        "position": 0,
        "name": name,
        "description": "",
        "status": TaskStatus(status),
        "sequence": 1,
        "parallel_group": None,
        "is_explicit": False,
        "open_dependencies": 0,
        "plan": None,
        "context": {},
        "outcome": None,
        "outcome_detail": None,
        "error": None,
        "attempts": 0,
        "checkpoints": 0,
        "workspace_id": None,
        "created_at": NOW,
        "started_at": None,
        "finished_at": None,
        "updated_at": NOW,
    }
    return Task(**(ordinary | given))


def make_workflow(status: str = "ready", **given: Any) -> Workflow:
    """Make a workflow that is not stored."""
    ordinary: dict[str, Any] = {
        "id": "wf_1",
        "name": "release",
        "source_type": SourceType.PROMPT,
        "source_ref": None,
        "source_content": "Release it.",
        "status": PlanStatus(status),
        "plan_summary": None,
        "initial_plan": None,
        "repository_path": None,
        "max_parallel_tasks": 1,
        "auto_create_workspaces": False,
        "file_conflicts": FileConflicts.WARN,
        "created_by": "local",
        "created_at": NOW,
        "updated_at": NOW,
    }
    return Workflow(**(ordinary | given))


def make_random_plan(dice: random.Random) -> list[dict[str, Any]]:
    """Make a random valid plan: tasks that wait for earlier ones, by name or by sequence."""
    tasks: list[dict[str, Any]] = []
    for number in range(dice.randint(1, 14)):
        written: dict[str, Any] = {"name": f"t{number}", "sequence": dice.randint(0, 4)}
        if dice.random() < 0.5:
            earlier = [
                each["name"]
                for each in tasks
                if each["sequence"] <= written["sequence"] and "depends_on" in each
            ]
            written["depends_on"] = dice.sample(earlier, dice.randint(0, min(3, len(earlier))))
        if dice.random() < 0.4:
            written["parallel_group"] = dice.choice("gh")
        tasks.append(written)
    return tasks
