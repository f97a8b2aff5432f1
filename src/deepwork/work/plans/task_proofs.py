"""Proves that the checks of a task pass, before the transaction that completes it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import field, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from deepwork.kernel.call import current_call
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import Code, GateClosed
from deepwork.kernel.operations import NotPrepared
from deepwork.kernel.records import dataclass
from deepwork.work.agents.presence import Presence
from deepwork.work.plans.claims import ClaimService, LockedTask
from deepwork.work.plans.interfaces import CompletedWork, TaskTrees
from deepwork.work.plans.models import (
    Outline,
    PlanRequirements,
    Task,
    TaskStatus,
    Workflow,
    list_required_checks,
)
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.task_store import TaskStore

if TYPE_CHECKING:  # imported by the first plan that names a check
    from deepwork.gates.checks.models import GuardedStart, Proof, ProofRequest
    from deepwork.gates.checks.service import CheckService

TASK = "task"
"""The kind of subject that a planned task is."""


@dataclass(frozen=True)
class TaskProofs:
    """The proofs of a task, for the transaction that completes it."""

    names: tuple[str, ...]
    proofs: tuple[Proof, ...]

    @property
    def verdicts(self) -> dict[str, str]:
        return {proof.check_name: proof.shown_verdict.value for proof in self.proofs}

    def describe(self) -> list[dict[str, str]]:
        """Describe the proofs to a person who approves the work; its files are shown beside them."""
        return [
            {
                "check": proof.check_name,
                "verdict": proof.shown_verdict.value,
                "definition": proof.definition_digest,
            }
            for proof in self.proofs
        ]


@dataclass(frozen=True)
class NamedChecks:
    """Checks that are defined at a commit, for the transaction that lets a plan or a task name them."""

    base: str | None
    names: tuple[str, ...]
    start: GuardedStart | None = field(default=None, compare=False)
    """What differed before work began, for a plan that is set now."""


class TaskProver:
    """Finds or makes the proofs that plans and tasks require."""

    def __init__(
        self,
        database: Database,
        presence: Presence,
        get_checks: Callable[[Path], CheckService],
        get_trees: Callable[[], TaskTrees],
    ) -> None:
        """`get_checks` returns the checks of a project; both are called only if a plan names a check."""
        self._database, self._presence = database, presence
        self._get_checks, self._get_trees = get_checks, get_trees

    def check_names(self, workflow_id: str, names: tuple[str, ...]) -> NamedChecks:
        """Raise InvalidInput if a plan names a check that its base does not define; not in a transaction."""
        with self._database.reading() as tx:
            workflow = self._get_trees().localize(tx, PlanStore(tx).get(workflow_id))
        return self.check_names_at(workflow.repository_path or "", workflow.base_commit, names)

    def check_names_at(self, repository: str, base: str | None, names: tuple[str, ...]) -> NamedChecks:
        """Raise InvalidInput if a check is not defined at this commit of the repository."""
        checks = self._get_checks(Path(repository))
        checks.require_defined(Path(repository), base, names)
        return NamedChecks(base, names, checks.find_start(Path(repository), base) if base and names else None)

    def prove(self, task_id: str, agent_id: str | None, claim_epoch: int | None) -> TaskProofs | None:
        """Return a proof of each check that the task requires; raises GateClosed as long as there is none.

        None if it requires none.
        """
        with self._database.transaction() as tx:
            work = self._renew_claim(tx, task_id, agent_id, claim_epoch)
            if not list_names(work.workflow, work.task):
                return None
            workflow = self._get_trees().localize(tx, work.workflow)
            tree = self._get_trees().locate(tx, workflow, work.task)
        request = self._build_request(workflow, work.task, tree)
        checks = self._get_checks(Path(workflow.repository_path or ""))

        def renew() -> None:
            with self._database.transaction() as tx:
                self._renew_claim(tx, task_id, agent_id, claim_epoch)

        return TaskProofs(request.names, _prove(checks, request, self._presence.lease_ms / 2000, renew))

    def look(self, task_id: str, proofs: TaskProofs | None) -> CompletedWork:
        """Return the work that is to be completed: what was proved, or else what is there now."""
        if proofs and proofs.proofs:
            return CompletedWork(proofs.proofs[0].proved)
        with self._database.reading() as tx:
            task = TaskStore(tx).get(task_id)
            if task.workspace_id is None:
                return CompletedWork()
            tree = self._get_trees().find_tree(tx, PlanStore(tx).get(task.workflow_id), task)
        return (
            CompletedWork(self._get_trees().take_snapshot(task_id, tree), tree) if tree else CompletedWork()
        )

    def find_request(self, task_id: str) -> tuple[CheckService, ProofRequest]:
        """Return what completing the task would have to prove, and the checks of its project."""
        with self._database.reading() as tx:
            task = TaskStore(tx).get(task_id)
            workflow = self._get_trees().localize(tx, PlanStore(tx).get(task.workflow_id))
            tree = self._get_trees().locate(tx, workflow, task)
        checks = self._get_checks(Path(workflow.repository_path or ""))
        return checks, self._build_request(workflow, task, tree)

    def _build_request(self, workflow: Workflow, task: Task, tree: Path) -> ProofRequest:
        from deepwork.gates.checks.models import ProofRequest, ProofSubject  # noqa: PLC0415

        trees = self._get_trees()
        base = trees.find_base(workflow, tree) or ""
        touched = trees.list_changed_paths(task.id, tree)
        return ProofRequest(
            subject=ProofSubject(TASK, task.id),
            tree=tree,
            base=base,
            names=list_names(workflow, task),
            attempt=(None, task.max_attempts),
            workflow_id=workflow.id,
            touched_paths=touched or (),
            guarded_since=workflow.base_commit if touched is None else None,
        )

    def take(self, workflow: Workflow, task: Task) -> TaskProofs | None:
        """Return the proofs with which the call completes the task; None if it does not, or needs none.

        Raises NotPrepared if they are not there: the call is undone, `prove` runs, and the call is repeated.
        """
        names = list_names(workflow, task) if task.status is TaskStatus.COMPLETED else ()
        if not names:
            return None
        prepared = current_call().find_prepared(TaskProofs)
        if prepared is None or set(prepared.names) != set(names):
            raise NotPrepared
        return prepared

    def take_work(self, task: Task) -> CompletedWork:
        """Return the work with which the call completes the task; raises NotPrepared as `take` does."""
        if task.status is not TaskStatus.COMPLETED or task.workspace_id is None:
            return CompletedWork()
        prepared = current_call().find_prepared(CompletedWork)
        if prepared is None:
            raise NotPrepared
        return prepared

    def record(self, tx: Transaction, workflow: Workflow, task: Task, taken: TaskProofs) -> None:
        """Record that the task was completed with these proofs, in the transaction that completes it."""
        from deepwork.gates.checks.models import ProofSubject  # noqa: PLC0415

        here = self._get_trees().localize(tx, workflow)
        checks = self._get_checks(Path(here.repository_path or ""))
        checks.record_uses(tx, ProofSubject(TASK, task.id), taken.proofs)

    def _renew_claim(
        self, tx: Transaction, task_id: str, agent_id: str | None, claim_epoch: int | None
    ) -> LockedTask:
        """Lock the task as the call does; the agent waits for its answer, so that is a sign of life."""
        with ClaimService(tx, self._presence) as claims:
            return claims.lock_for_change(task_id, agent_id, claim_epoch)


def list_names(workflow: Workflow, task: Task) -> tuple[str, ...]:
    """Return the checks that a task must pass."""
    if workflow.requirements is None and task.requirements is None:
        return ()
    return list_required_checks(workflow.requirements, task.requirements)


def list_used_proofs(tx: Transaction, task: Task) -> dict[str, str]:
    """Return, by check, the id of the proof with which the task was completed."""
    from deepwork.gates.checks.models import ProofSubject  # noqa: PLC0415
    from deepwork.gates.checks.store import ProofStore  # noqa: PLC0415

    return {proof.check_name: proof.id for proof in ProofStore(tx).list_used_by(ProofSubject(TASK, task.id))}


def list_named_checks(plan: PlanRequirements | None, outlines: Iterable[Outline]) -> tuple[str, ...]:
    """Return every check that a plan names, for itself or for one of its tasks."""
    own = [name for outline in outlines if outline.requirements for name in outline.requirements.checks]
    return tuple(dict.fromkeys([*(plan.checks if plan else ()), *own]))


def require_checked_names(workflow: Workflow, names: tuple[str, ...]) -> None:
    """Raise NotPrepared unless this call found that the base of the plan defines these checks."""
    if names and current_call().prepared != NamedChecks(workflow.base_commit, names):
        raise NotPrepared


def record_start(tx: Transaction, workflow: Workflow) -> None:
    """Record which guarded files differed before the work of a plan began, with the plan."""
    prepared = current_call().prepared
    if isinstance(prepared, NamedChecks) and prepared.start is not None:
        from deepwork.gates.checks.guarded_changes import add_guarded_start  # noqa: PLC0415

        add_guarded_start(tx, workflow.id, prepared.start)


def _prove(
    checks: CheckService, request: ProofRequest, slice_seconds: float, renew: Callable[[], None]
) -> tuple[Proof, ...]:
    """Wait for the proofs as long as the request says, and renew the claim before it can expire."""
    deadline = inf if request.wait_seconds is None else time.monotonic() + request.wait_seconds
    while True:
        left = deadline - time.monotonic()
        try:
            return checks.prove(replace(request, wait_seconds=max(0.0, min(left, slice_seconds))))
        except GateClosed as closed:
            is_over = left <= slice_seconds or not current_call().is_wanted()
            if closed.code is not Code.CHECKS_RUNNING or is_over:
                raise
        renew()
