"""Proves that the checks of a tracked task pass, before it counts as a success."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import NotAllowed
from deepwork.kernel.files.repositories import find_tree_root
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.merge_bases import find_base
from deepwork.kernel.git.refs import find_head
from deepwork.kernel.user_settings import build_git_environment
from deepwork.work.plans.models import TaskRequirements
from deepwork.work.tracking.attribution_service import AttributionService
from deepwork.work.tracking.models import TrackedTask, TrackedTaskStatus, TrackedWorkflow, Watch
from deepwork.work.tracking.store import TrackStore
from deepwork.work.tracking.watch_store import WatchStore

if TYPE_CHECKING:  # imported by the first workflow that names a check
    from deepwork.gates.checks.models import Proof, ProofRequest
    from deepwork.gates.checks.service import CheckService

TRACKED_TASK = "tracked_task"
"""The kind of subject that a tracked task is."""


class TrackedTaskProver:
    """Finds or makes the proofs that tracked workflows require of their tasks."""

    def __init__(
        self,
        database: Database,
        attribution: AttributionService,
        project: Path,
        get_checks: Callable[[], CheckService],
    ) -> None:
        self._database, self._attribution = database, attribution
        self._project, self._get_checks = project, get_checks

    def pin(self, workflow: TrackedWorkflow, names: Sequence[str]) -> TrackedWorkflow:
        """Return the workflow with the commit that it starts at, and the checks that are defined there."""
        head = find_head(self._open_git(self._project))
        if names:
            self._get_checks().require_defined(self._project, head.commit if head else None, names)
        if names and head:
            self._remember_start(workflow.id, head.commit)
        return replace(
            workflow,
            requirements=TaskRequirements(checks=tuple(dict.fromkeys(names))) if names else None,
            base_commit=head.commit if head else None,
            base_branch=head.branch if head else None,
        )

    def _remember_start(self, workflow_id: str, base: str) -> None:
        from deepwork.gates.checks.guarded_changes import add_guarded_start  # noqa: PLC0415

        start = self._get_checks().find_start(self._project, base)
        with self._database.transaction() as tx:
            add_guarded_start(tx, workflow_id, start)

    def prove(self, task: TrackedTask, status: TrackedTaskStatus) -> tuple[Proof, ...]:
        """Return the proofs with which a task counts as a success; raises GateClosed without them."""
        if status is not TrackedTaskStatus.SUCCESS or not task.is_running:
            return ()
        with self._database.reading() as tx:
            workflow = TrackStore(tx).get_workflow(task.workflow_id)
        if workflow.requirements is None:
            return ()
        return self._get_checks().prove(self._build_request(task, workflow))

    def find_request(self, task_id: str) -> tuple[CheckService, ProofRequest]:
        """Return what ending the task as a success would have to prove, and the checks of the project."""
        with self._database.reading() as tx:
            task = TrackStore(tx).get_task(task_id)
            workflow = TrackStore(tx).get_workflow(task.workflow_id)
        return self._get_checks(), self._build_request(task, workflow)

    def record(self, tx: Transaction, task_id: str, proofs: Sequence[Proof]) -> None:
        """Record that the task succeeded with these proofs, in the transaction that ends it."""
        if proofs:
            from deepwork.gates.checks.models import ProofSubject  # noqa: PLC0415

            self._get_checks().record_uses(tx, ProofSubject(TRACKED_TASK, task_id), proofs)

    def _build_request(self, task: TrackedTask, workflow: TrackedWorkflow) -> ProofRequest:
        from deepwork.gates.checks.models import ProofRequest, ProofSubject  # noqa: PLC0415

        with self._database.reading() as tx:
            watch = WatchStore(tx).find_latest(task.id)
        self._require_here(task, watch)
        tree = Path(watch.tree_path) if watch else self._project
        touched = self._attribution.list_changed_paths(task.id) if watch else None
        return ProofRequest(
            ProofSubject(TRACKED_TASK, task.id),
            tree,
            self._find_base(workflow, tree),
            workflow.requirements.checks if workflow.requirements else (),
            workflow_id=workflow.id,
            touched_paths=touched or (),
            guarded_since=workflow.base_commit if touched is None else None,
        )

    def _require_here(self, task: TrackedTask, watch: Watch | None) -> None:
        if watch is not None and watch.host != self._attribution.snapshots.host:
            raise NotAllowed(
                f"The checks of task {task.name!r} cannot run: its tree is on {watch.host}.",
                suggestion="Complete it there.",
                recoverable=True,
            )

    def _find_base(self, workflow: TrackedWorkflow, tree: Path) -> str:
        start = workflow.base_commit or ""
        if find_tree_root(tree) == find_tree_root(self._project):
            return start
        return find_base(self._open_git(tree), start, workflow.base_branch)

    def _open_git(self, tree: Path) -> Git:
        return Git(tree, environment=build_git_environment(tree))


def describe_proofs(proofs: Sequence[Proof]) -> dict[str, dict[str, str]]:
    """Return the verdicts as they are stored in the result of the task; nothing if it needed none."""
    return {"checks": {proof.check_name: proof.shown_verdict.value for proof in proofs}} if proofs else {}
