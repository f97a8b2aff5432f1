"""What agents work on: tasks of plans and steps of jobs, as the engine sees both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from deepwork.delivery.runner.models import Attempt, AttemptStage, Run
from deepwork.gates.budgets.models import Budget
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.records import dataclass
from deepwork.work.plans.models import TaskStatus


class WorkItem(Protocol):
    """A task or a step, as it is now."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def status(self) -> TaskStatus: ...
    @property
    def claimed_by(self) -> str | None: ...
    @property
    def waits_for(self) -> str | None: ...
    @property
    def finished_at(self) -> int | None: ...
    @property
    def max_attempts(self) -> int: ...


@dataclass(frozen=True)
class WorkPlace:
    """Where something is worked on."""

    main: Path
    """The folder of the project in the person's checkout, which is never changed."""
    tree: Path
    folder: Path
    """The project's folder in the tree, where agents work: a project may be a subfolder of its repository."""
    branch: str


@dataclass(frozen=True)
class StepBudget:
    """What may be spent on a step of a job, and how a person raises it."""

    budget: Budget
    hint: str


class WorkSource(Protocol):
    """Where the work of attempts comes from, and what their prompts say."""

    def load(self, tx: Transaction, attempts: Sequence[Attempt]) -> Mapping[str, WorkItem]:
        """Return what attempts work on, by task id; what does not exist any more is left out."""

    def preview(self, run: Run, task_id: str) -> tuple[str, WorkPlace]:
        """Return the name of something, and where it would be worked on; changes nothing."""

    def provide_place(self, attempt: Attempt) -> WorkPlace:
        """Return where an attempt works, after making it if need be. It can be repeated after a crash."""

    def build_prompt(self, attempt: Attempt) -> str:
        """Build the prompt of a start that continues no session of the agent."""

    def list_variables(self, attempt: Attempt) -> Mapping[str, str]:
        """Return what else the agent finds in its environment."""

    def find_budget(self, attempt: Attempt) -> StepBudget | None:
        """Return what may be spent, where plans do not say it; None: no limit."""


class Finisher(Protocol):
    """Ends attempts: completes their work, or gives it to the next."""

    def finish(self, attempt: Attempt) -> Attempt | None:
        """Complete the work if it counts. Every step can be repeated after a crash."""

    def fail(
        self, attempt: Attempt, reason: str, stage: AttemptStage = AttemptStage.FAILED
    ) -> Attempt | None:
        """End the attempt as failed; the work is for the next one, or for a person."""

    def stop(self, attempt: Attempt, reason: str) -> Attempt | None:
        """End the attempt because the run ends or the work was taken away; its tree stays."""

    def give_up(self, attempt: Attempt, reason: str) -> Attempt | None:
        """End the attempt because a person wants that; nobody tries again before a person says so."""

    def end_reviewed(self, attempt: Attempt) -> Attempt | None:
        """End an attempt whose work a person has let pass."""


class WorkSources:
    """Both kinds of work; an attempt at a step of a job has no plan."""

    def __init__(self, tasks: WorkSource, get_steps: Callable[[], WorkSource]) -> None:
        """`get_steps` is called by the first attempt at a step: most runs are of plans."""
        self._tasks, self._get_steps = tasks, get_steps

    def load(self, tx: Transaction, attempts: Sequence[Attempt]) -> Mapping[str, WorkItem]:
        """Return what attempts work on, by task id."""
        of_plans = [attempt for attempt in attempts if attempt.workflow_id is not None]
        of_jobs = [attempt for attempt in attempts if attempt.workflow_id is None]
        steps = self._get_steps().load(tx, of_jobs) if of_jobs else {}
        return {**self._tasks.load(tx, of_plans), **steps}

    def find(self, of: Attempt | Run) -> WorkSource:
        """Return the source of an attempt's or a run's work."""
        return self._get_steps() if of.workflow_id is None else self._tasks


class Finishers:
    """Finishes attempts of both kinds."""

    def __init__(self, tasks: Finisher, get_steps: Callable[[], Finisher]) -> None:
        self._tasks, self._get_steps = tasks, get_steps

    def finish(self, attempt: Attempt) -> Attempt | None:
        return self._find(attempt).finish(attempt)

    def fail(
        self, attempt: Attempt, reason: str, stage: AttemptStage = AttemptStage.FAILED
    ) -> Attempt | None:
        return self._find(attempt).fail(attempt, reason, stage)

    def stop(self, attempt: Attempt, reason: str) -> Attempt | None:
        return self._find(attempt).stop(attempt, reason)

    def give_up(self, attempt: Attempt, reason: str) -> Attempt | None:
        return self._find(attempt).give_up(attempt, reason)

    def end_reviewed(self, attempt: Attempt) -> Attempt | None:
        return self._find(attempt).end_reviewed(attempt)

    def _find(self, attempt: Attempt) -> Finisher:
        return self._get_steps() if attempt.workflow_id is None else self._tasks
