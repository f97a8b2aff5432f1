"""What people can read and do about rewinds: list them, rewind a task, and undo that.

The person's proof covers what the preview shows: if that differs when the rewind is applied, they are asked
again.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from deepwork.delivery.rewind.models import Dependents, Rewind, RewindStage, parse_target
from deepwork.delivery.rewind.planner import RewindPlan, RewindPlanner, require_possible
from deepwork.delivery.rewind.responses import RewindPage, RewindPreview, RewindView, describe_rewind
from deepwork.delivery.rewind.service import NewRewind, RewindService
from deepwork.delivery.rewind.store import RewindStore
from deepwork.delivery.rewind.undoing import UndoPlanner
from deepwork.gates.approvals.acts import require_asked, require_proven
from deepwork.kernel.answers import Field, Id
from deepwork.kernel.call import current_call
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import NotAllowed
from deepwork.kernel.operations import Traits, operation
from deepwork.kernel.paging import Cursor, PageLimit, cut_page, parse_position
from deepwork.kernel.values import new_id

To = Annotated[str, Field(description="start, attempt:N or checkpoint:N")]
Digest = Annotated[str | None, Field(description="Of the preview that was decided about")]
_MAX_SHOWN = 20


class RewindOperations:
    """What people read and decide about undoing tasks."""

    traits: ClassVar = Traits(toolset="rewind", people_only=True)

    def __init__(
        self, database: Database, planner: RewindPlanner, undoing: UndoPlanner, service: RewindService
    ) -> None:
        self._database, self._planner, self._undoing, self._service = database, planner, undoing, service

    @operation("work", long_running=True, idempotent=True, for_people=True)
    def preview_rewind(
        self, task_id: Id, to: To = "start", dependents: Dependents = Dependents.ASK
    ) -> RewindPreview:
        """Show what rewinding a task would do."""
        return self._planner.plan(task_id, parse_target(to), dependents, "rw").preview

    @operation("work", long_running=True, for_people=True, destructive=True)
    def rewind_task(
        self, task_id: Id, to: To = "start", dependents: Dependents = Dependents.ASK, digest: Digest = None
    ) -> RewindView:
        """Undo a task: its files, its state and what builds on it; everything is kept and can be undone."""
        with self._service.lock():
            rewind = self._find_unfinished(task_id, digest) or self._begin(task_id, to, dependents, digest)
            return self._carry_out(rewind)

    @operation("work", long_running=True, for_people=True)
    def undo_rewind(self, rewind_id: Id) -> RewindView:
        """Undo a rewind: files, branches and tasks are as before, unless something has changed since."""
        with self._service.lock():
            with self._database.reading() as tx:
                known = RewindStore(tx).get(rewind_id)
                left = RewindStore(tx).find_open_of_task(known.task_id)
            if left is not None:
                self._require_person(left)
                return self._carry_out(left)
            return self._carry_out(self._begin_undo(rewind_id))

    @operation("read")
    def list_rewinds(
        self,
        workflow_id: Annotated[str | None, Field(description="Of tasks of this plan")] = None,
        task_id: Annotated[str | None, Field(description="Of this task")] = None,
        open: Annotated[bool, Field(description="Only those that have not ended")] = False,
        limit: PageLimit = 50,
        cursor: Cursor = None,
    ) -> RewindPage:
        """Rewinds of tasks, newest first."""
        after = parse_position(cursor)
        with self._database.reading() as tx:
            found, total = RewindStore(tx).list_page(
                workflow_id=workflow_id, task_id=task_id, is_open=open, after=after, limit=limit + 1
            )
        page, next_cursor = cut_page(found, limit)
        return RewindPage(rewinds=[describe_rewind(each) for each in page], total=total, cursor=next_cursor)

    @operation("read")
    def get_rewind(self, id: Id) -> RewindView:
        """One rewind, with the tasks that it changed."""
        with self._database.reading() as tx:
            store = RewindStore(tx)
            return describe_rewind(store.get(id), store.list_tasks(id))

    def _begin(self, task_id: str, to: str, dependents: Dependents, digest: str | None) -> Rewind:
        id = new_id("rw")
        plan = self._planner.plan(task_id, parse_target(to), dependents, id)
        if digest is not None and digest != plan.digest:
            raise NotAllowed(
                "What you decided about changed meanwhile; nothing was done.",
                suggestion="Look at the preview again, then decide again.",
                recoverable=True,
            )
        require_possible(plan)
        new = NewRewind(
            id,
            plan.facts.workflow.id,
            task_id,
            str(plan.target),
            Dependents.KEEP if dependents is Dependents.ASK else dependents,
            plan.digest,
            plan.steps,
            plan.tasks,
        )
        return self._record(new, _describe(plan))

    def _begin_undo(self, rewind_id: str) -> Rewind:
        plan = self._undoing.plan(rewind_id)
        of, known = plan.rewind, (plan.digest, plan.steps, plan.tasks)
        new = NewRewind(
            new_id("rw"), of.workflow_id, of.task_id, of.target, of.dependents, *known, undoes=of.id
        )
        return self._record(new, {"undoes": rewind_id, "digest": plan.digest})

    def _record(self, new: NewRewind, about: dict[str, Any]) -> Rewind:
        """Record what the person decided; `about` is what their proof covers."""
        require_asked(current_call().caller, **about)
        return self._service.begin(new, lambda tx: _confirm(tx, new.digest, about))

    def _find_unfinished(self, task_id: str, digest: str | None) -> Rewind | None:
        """Return the rewind that a process left unfinished, or the one that this call would repeat."""
        with self._database.reading() as tx:
            left = RewindStore(tx).find_open_of_task(task_id)
            last = None if left else RewindStore(tx).find_last_of_task(task_id)
        if left is not None:
            self._require_person(left)
            return left
        is_same = last is not None and digest is not None and last.digest == digest and last.is_effective
        return last if is_same else None

    def _require_person(self, rewind: Rewind) -> None:
        require_asked(current_call().caller, goes_on=rewind.id, digest=rewind.digest)

    def _carry_out(self, rewind: Rewind) -> RewindView:
        done = self._service.carry_out(rewind) if rewind.stage is not RewindStage.DONE else rewind
        current_call().note_outcome(f"{done.stage.value}:{done.digest}")
        with self._database.reading() as tx:
            return describe_rewind(done, RewindStore(tx).list_tasks(done.id))


def _confirm(tx: Transaction, digest: str, about: dict[str, Any]) -> None:
    require_proven(tx, **about)
    current_call().note_outcome(f"{RewindStage.PLANNED.value}:{digest}")


def _describe(plan: RewindPlan) -> dict[str, Any]:
    """Describe what the proof covers: the digest of all, and the beginning of each list."""
    shown = plan.preview.model_dump()
    lists = {name: value[:_MAX_SHOWN] for name, value in shown.items() if isinstance(value, list)}
    return {"rewind": {**shown, **lists}}
