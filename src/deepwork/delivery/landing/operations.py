"""What people can read, do and decide about landings: list them, land work, give a landing up, approve it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, ClassVar

from deepwork.delivery.landing.models import (
    Landing,
    LandingStatus,
    Problem,
    describe_move,
    list_conflict_files,
)
from deepwork.delivery.landing.responses import (
    InTheWay,
    LandingConflict,
    LandingLine,
    LandingPage,
    LandingStates,
    LandingView,
    LandResult,
    PlanRef,
    QueuedLanding,
    QueueView,
    RedCheck,
    offer_hint,
    offer_landing_actions,
)
from deepwork.delivery.landing.service import LandingService, LandRequest
from deepwork.delivery.landing.store import LandingStore
from deepwork.gates.approvals.models import Approval, ApprovalKind, ApprovalStatus, DecisionEffect
from deepwork.gates.approvals.service import notify_of_decision
from deepwork.gates.approvals.store import ApprovalStore
from deepwork.gates.checks.models import LANDING, ProofSubject
from deepwork.gates.checks.responses import CheckLine
from deepwork.gates.checks.store import ProofStore
from deepwork.kernel.answers import Act, Field, Id, Name
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import DeepworkError, InvalidInput
from deepwork.kernel.foreign_text import remove_invisible
from deepwork.kernel.operations import InTransaction, Traits, operation
from deepwork.kernel.paging import Cursor, PageLimit, cut_page, parse_position
from deepwork.work.plans.models import list_required_checks
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.task_store import TaskStore
from deepwork.work.tracking.watch_store import WatchStore

_MAX_QUEUED = 500
_MAX_LOG_LINES = 60
_RED = {Problem.RED: "work", Problem.TARGET_RED: "branch"}
"""What is to blame for a red landing."""
_OF_THE_WORK = (Problem.RED, Problem.CONFLICT, Problem.REFUSED)
"""What another attempt at the task can correct."""


class LandingOperations:
    """What people read and decide about landings."""

    traits: ClassVar = Traits(toolset="landing", people_only=True)

    def __init__(
        self,
        database: Database,
        get_service: Callable[[], LandingService],
        view_states: Callable[[Transaction], LandingStates],
        read_output: Callable[[str], bytes | None],
    ) -> None:
        """`get_service` is called by the first landing: most calls only read.

        `read_output` returns what a check printed, by the name of its file; None if that was removed.
        """
        self._database, self._get_service, self._view_states = database, get_service, view_states
        self._read_output = read_output

    @operation("work", long_running=True, for_people=True)
    def land_work(
        self,
        task_id: Id | None = None,
        workflow_id: Id | None = None,
        onto: Annotated[
            Name | None, Field(description="The branch; else the one the plan began from")
        ] = None,
        commit: Annotated[bool, Field(description="Commit uncommitted work first")] = False,
    ) -> InTransaction[LandResult]:
        """Merge, check and land a completed task, or all completed tasks of a plan."""
        plan = self._find_plan(task_id, workflow_id)
        result = self._get_service().land(LandRequest(plan, task_id, onto, commits=commit))
        return InTransaction(lambda: result)

    @operation("work", for_people=True)
    def cancel_landing(self, landing_id: Id) -> LandingView:
        """Give up a landing that waits for somebody; its branch stays."""
        return LandingView.of(self._get_service().cancel(landing_id))

    @operation("read")
    def list_landings(
        self,
        status: LandingStatus | None = None,
        open: Annotated[bool, Field(description="Only those that have not ended")] = False,
        ended: Annotated[bool, Field(description="Only those that have ended")] = False,
        workflow_id: Annotated[str | None, Field(description="Of this plan")] = None,
        task_id: Annotated[str | None, Field(description="Of this task")] = None,
        limit: PageLimit = 50,
        cursor: Cursor = None,
    ) -> LandingPage:
        """What landed on which branch, or is on its way, newest first."""
        with self._database.reading() as tx:
            found, total = LandingStore(tx).list_newest(
                statuses=[status] if status else None,
                workflow_id=workflow_id,
                task_id=task_id,
                is_open=open,
                is_ended=ended,
                after=parse_position(cursor),
                limit=limit + 1,
            )
            page, next_cursor = cut_page(found, limit)
            return LandingPage(landings=self._build_lines(tx, page), total=total, cursor=next_cursor)

    @operation("read")
    def get_landing(self, id: Id) -> LandingLine:
        """One landing: where its work is, and what is in its way."""
        with self._database.reading() as tx:
            landing = LandingStore(tx).get(id)
            [line] = self._build_lines(tx, [landing])
            proved = {check.name: check for check in line.checks or ()}
            names = dict.fromkeys((*_list_required_checks(tx, landing), *proved))
            checks = [proved.get(name) or CheckLine(name=name) for name in names] or None
            return line.model_copy({"checks": checks, "approval_id": _find_open_approval(tx, id)})

    @operation("read")
    def get_landing_queue(
        self, workflow_id: Annotated[str | None, Field(description="Of this plan; else of all")] = None
    ) -> QueueView:
        """What is on its way to a branch: its place in the queue, and what is in its way."""
        with self._database.reading() as tx:
            found, _ = LandingStore(tx).list_newest(workflow_id=workflow_id, is_open=True, limit=_MAX_QUEUED)
            lines = self._build_lines(tx, found)
            red = {each.id: self._list_red(tx, each) for each in found if each.problem in _RED}
            same = _find_same_files(tx, found)
            landed = LandingStore(tx).count_landed_tasks(workflow_id) if workflow_id else None
        conflicts = {
            each.id: self._explain_conflict(each) for each in found if each.problem is Problem.CONFLICT
        }
        queued = [
            QueuedLanding(
                **vars(line) | {"actions": [*line.actions, *_offer_hints(each)]},
                culprit=_RED.get(each.problem) if each.problem else None,
                red=red.get(each.id) or None,
                conflict=conflicts.get(each.id),
                same_files=same.get(each.id),
            )
            for each, line in zip(found, lines, strict=True)
        ]
        queued.sort(key=lambda each: (each.position is None, each.position or 0, each.updated_at))
        return QueueView(landings=queued, landed=landed)

    def _list_red(self, tx: Transaction, landing: Landing) -> list[RedCheck]:
        """List the checks that failed on the merged result, or on the branch without it."""
        proofs = ProofStore(tx).list_red_of(ProofSubject(LANDING, landing.id), landing.merge_commit or "")
        return [
            RedCheck.of(
                each,
                check=each.check_name,
                verdict=each.shown_verdict.value,
                proof_id=each.id,
                log=self._read_end(each.output_file),
            )
            for each in proofs
        ]

    def _read_end(self, name: str | None) -> str | None:
        output = self._read_output(name) if name else None
        if output is None:
            return None
        text = remove_invisible(output.decode(errors="replace")).rstrip()
        return "\n".join(text.split("\n")[-_MAX_LOG_LINES:])

    def _explain_conflict(self, landing: Landing) -> LandingConflict:
        files = list_conflict_files(landing.reason or "")
        commits = self._get_service().list_changers(landing, files) if files else None
        if commits is None:
            return LandingConflict(files=files)
        with self._database.reading() as tx:
            made = LandingStore(tx).find_by_merge_commits(
                landing.repository_path, [hash for hash, _ in commits]
            )
        others = [
            InTheWay(
                commit=hash,
                subject=subject,
                landing_id=made[hash].id if hash in made else None,
                task_id=made[hash].task_id if hash in made else None,
            )
            for hash, subject in commits
        ]
        return LandingConflict(files=files, others=others)

    def _find_plan(self, task_id: str | None, workflow_id: str | None) -> str:
        if (task_id is None) == (workflow_id is None):
            raise InvalidInput("Name a task or a plan.", suggestion="Pass `task_id` or `workflow_id`.")
        if task_id is None:
            return workflow_id or ""
        with self._database.reading() as tx:
            return TaskStore(tx).get(task_id).workflow_id

    def _build_lines(self, tx: Transaction, landings: Sequence[Landing]) -> list[LandingLine]:
        states = self._view_states(tx).judge_landings(landings)
        plans = PlanStore(tx).find_by_ids([each.workflow_id for each in landings if each.workflow_id])
        proofs = ProofStore(tx).find_used_by(LANDING, [each.id for each in landings])
        places = _find_positions(tx, landings)
        return [
            LandingLine.of(
                each,
                **states[each.id].to_answer(),
                workflow=PlanRef.of(plans[each.workflow_id]) if each.workflow_id in plans else None,
                position=places.get(each.id),
                checks=[CheckLine.of_proof(proof) for proof in proofs.get(each.id, ())] or None,
                actions=offer_landing_actions(each),
            )
            for each in landings
        ]


def _offer_hints(landing: Landing) -> list[Act]:
    """Offer another attempt; without one, the task is open again already."""
    is_stuck = landing.status is LandingStatus.NEEDS_PERSON and landing.problem in _OF_THE_WORK
    return [offer_hint(landing.task_id)] if is_stuck and landing.task_id and landing.attempt_id else []


def _find_same_files(tx: Transaction, landings: Sequence[Landing]) -> dict[str, list[str]]:
    """Map landings to the titles of others to the same branch whose tasks changed some of the same files."""
    files = WatchStore(tx).map_paths([each.task_id for each in landings if each.task_id])
    found: dict[str, list[str]] = {}
    for each in landings:
        own = files.get(each.task_id or "", set())
        titles = [
            other.title
            for other in landings
            if other.id != each.id
            and other.target == each.target
            and own & files.get(other.task_id or "", set())
        ]
        if titles:
            found[each.id] = titles
    return found


def _list_required_checks(tx: Transaction, landing: Landing) -> tuple[str, ...]:
    if landing.task_id is None:
        return ()
    task = TaskStore(tx).get(landing.task_id)
    return tuple(list_required_checks(PlanStore(tx).get(task.workflow_id).requirements, task.requirements))


def _find_open_approval(tx: Transaction, id: str) -> str | None:
    asked = ApprovalStore(tx).list_of_subject(ApprovalKind.LANDING, id)
    pending = [each.id for each in asked if each.status is ApprovalStatus.PENDING]
    return pending[-1] if pending else None


def _find_positions(tx: Transaction, landings: Iterable[Landing]) -> dict[str, int]:
    """Map the landings that a process has to work on to their places in the queues of their branches."""
    pending = [each for each in landings if each.status.is_pending]
    queues = {(each.host, each.repository_path, each.target) for each in pending}
    listed = [LandingStore(tx).list_pending(*queue) for queue in queues]
    return {each.id: place for queue in listed for place, each in enumerate(queue, start=1)}


class LandingDecisions:
    """Lands what a person approved, and sends back what they refused."""

    def __init__(self, get_service: Callable[[], LandingService]) -> None:
        self._get_service = get_service

    def lock(self, tx: Transaction, approval: Approval) -> None:
        """Lock nothing: a landing takes its lease first, and no decision waits for that."""

    def apply(self, tx: Transaction, approval: Approval) -> str | None:
        """Notify the agent whose work it is."""
        notify_of_decision(tx, approval, "")
        return None

    def follow(self, approval: Approval) -> DecisionEffect | None:
        """Go on with the landing, if nothing changed since the person looked at it."""
        try:
            landing = self._get_service().resume(approval.subject_id)
        except DeepworkError as error:
            return DecisionEffect(f"It has not landed yet: {error.message}", is_carried_out=False)
        if landing.status is LandingStatus.LANDED:
            return DecisionEffect(describe_move(landing))
        text = f"The landing is {landing.status}. {landing.reason or ''}".strip()
        return DecisionEffect(text, is_carried_out=landing.status.is_pending or not approval.was_given)
