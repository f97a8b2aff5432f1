"""Where claimed tasks are worked on, as far as plans must know it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from deepwork.database.transaction import Transaction
from deepwork.plans.models import Task, Workflow


@dataclass(frozen=True)
class Workplace:
    """A working tree for a task, or why there is none."""

    id: str | None = None
    path: str | None = None
    branch: str | None = None
    problem: str | None = None


class Workplaces(Protocol):
    """The slice that knows working trees."""

    def for_task(self, tx: Transaction, workflow: Workflow, task: Task, *, others: int) -> Workplace | None:
        """The tree for a task that was just claimed, while this many others are under way."""


class Repositories(Protocol):
    """The slice that knows repositories."""

    def locate(self, repository_path: str | None) -> str:
        """The path as it really is; without one, that of this project."""

    def note(self, tx: Transaction, path: str) -> None:
        """A plan is for this repository: know it from now on."""
