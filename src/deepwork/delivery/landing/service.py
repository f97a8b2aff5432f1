"""Lands finished work: queues it, works through the queue of its branch, and says what became of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from deepwork.delivery.landing.batches import contains, require_target
from deepwork.delivery.landing.checker import has_pending_approval
from deepwork.delivery.landing.models import (
    FinishedBranch,
    Landing,
    LandingKind,
    LandingStatus,
    Skipped,
    WorkOrigin,
    choose_exit_code,
    describe_landed_elsewhere,
    describe_move,
)
from deepwork.delivery.landing.queue import LandingQueue
from deepwork.delivery.landing.recorder import add_landing, build_landing, move_landing
from deepwork.delivery.landing.responses import LandingView, LandResult, WorkOrigins, describe_skipped
from deepwork.delivery.landing.store import LandingStore, is_branch_held
from deepwork.delivery.landing.work_finder import LandablePlan, WorkFinder, choose_target
from deepwork.kernel.call import current_call
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import GitError, NotAllowed
from deepwork.kernel.files.repositories import is_shallow
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.merge_commits import find_own_branch_tip, list_changers
from deepwork.kernel.git.refs import find_common_ancestor, get_commit
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import format_timestamp
from deepwork.work.plans.stores.claim_store import ClaimStore
from deepwork.work.workspaces.models import LOCAL_HOST

_POLL_SECONDS = 0.2
_MAX_CHANGERS = 20


@dataclass(frozen=True)
class LandRequest:
    """What a person wants to land: a plan, or one task of it with what it builds on."""

    workflow_id: str
    task_id: str | None = None
    onto: str | None = None
    commits: bool = False
    """Whether uncommitted work in the trees is committed first; else it is refused."""


class _LandsElsewhere(Exception):
    """Another machine has queued a landing of the same work."""


class LandingService:
    """Lands the work of plans on this machine."""

    def __init__(
        self,
        database: Database,
        queue: LandingQueue,
        finder: WorkFinder,
        open_git: Callable[[Path], Git],
        host: str,
        origins: WorkOrigins,
    ) -> None:
        self._database, self._queue, self._finder = database, queue, finder
        self._open_git, self._host, self._origins = open_git, host, origins

    def land(self, request: LandRequest, wait_seconds: float | None = None) -> LandResult:
        """Land what is done, and return what became of it; waits for other processes that land there."""
        work = self._finder.find(request.workflow_id, request.task_id, commits=request.commits)
        if request.onto is None and work.workflow.base_branch is None and work.workflow.repository_path:
            get_commit(self._open_git(Path(work.workflow.repository_path)), "HEAD")  # else nothing can land
        target = choose_target(work.workflow, request.onto)
        require_target(self._open_git(work.repository), target)
        self._require_whole_history(work)
        lacking = [each for each in work.skipped if each.host]
        if elsewhere := lacking or self._finder.find_outside_work(work, target):
            return build_result([], elsewhere)
        if elsewhere := self._find_elsewhere(work, target):
            return build_result([], elsewhere)
        self._require_possible(request, work)
        try:
            landings, known = self.queue(work, target)
        except _LandsElsewhere:  # since we looked
            return build_result([], self._find_elsewhere(work, target))
        ended = [*known, *self.advance([each.id for each in landings], wait_seconds)]
        return build_result(ended, [each for each in work.skipped if _is_of_interest(each, request)])

    def _find_elsewhere(self, work: LandablePlan, target: str) -> list[Skipped]:
        """List the tasks that another machine lands, or has landed on its own branch only."""
        with self._database.reading() as tx:
            newest = LandingStore(tx).find_newest([each.task_id for each in work.ready])
        found = [
            (each, last)
            for each in work.ready
            if (last := newest.get(each.task_id)) and last.host != self._host and last.target == target
        ]
        if not found:
            return []
        git = self._open_git(work.repository)
        return [
            Skipped(each.task_id, each.name, problem, is_refused=True, branch=last.branch, host=last.host)
            for each, last in found
            if (problem := _explain_elsewhere(git, last))
        ]

    def _require_whole_history(self, work: LandablePlan) -> None:
        """Raise NotAllowed in a shallow clone of a shared store: other machines would not know it again."""
        if self._host != LOCAL_HOST and is_shallow(work.repository):
            raise NotAllowed(
                f"{work.repository} is a shallow clone: it lacks the first commit, by which all machines know"
                " that they land on the same branch.",
                suggestion="Fetch the rest of the history with `git fetch --unshallow`, and land again.",
                recoverable=True,
            )

    def _require_possible(self, request: LandRequest, work: LandablePlan) -> None:
        """Raise NotAllowed if the one task that was asked for cannot land."""
        for each in work.skipped:
            if each.task_id == request.task_id and each.is_refused:
                raise NotAllowed(f"Task {each.name!r} was not landed. {each.reason}", recoverable=True)

    def queue(self, work: LandablePlan, target: str) -> tuple[list[Landing], list[Landing]]:
        """Store what is to land; return it, and what has landed before, which is left alone.

        Stores nothing, and raises _LandsElsewhere, if another machine lands any of it.
        """
        queued, known = [], []
        with self._database.transaction() as tx:
            newest = LandingStore(tx).find_newest([each.task_id for each in work.ready])
            for each in work.ready:
                last = newest.get(each.task_id)
                if last and _is_landed_as(last, each, target):
                    known.append(last)
                else:
                    queued.append(self._queue_one(tx, work, each, target, last))
        return queued, known

    def _queue_one(
        self, tx: Transaction, work: LandablePlan, ready: FinishedBranch, target: str, last: Landing | None
    ) -> Landing:
        if last is None or last.status.is_final:
            new = self._build_landing(tx, work, ready, target)
            if add_landing(tx, new):
                return new
            last = LandingStore(tx).find_open(ready.task_id)
            assert last is not None, "it was in the way a moment ago"
        return self._queue_again(tx, last, ready, target, str(work.repository))

    def _queue_again(
        self, tx: Transaction, landing: Landing, ready: FinishedBranch, target: str, repository: str
    ) -> Landing:
        """Put an open landing into the queue again, with the work as it is now."""
        if landing.status.is_pending and landing.host != self._host:
            raise _LandsElsewhere
        if landing.status.is_pending:
            return landing
        if landing.status is LandingStatus.WAITING and has_pending_approval(tx, landing):
            return landing
        origin = self._find_origin(tx, ready.task_id)
        is_given_up = landing.status is LandingStatus.NEEDS_PERSON
        moved = move_landing(
            tx,
            landing,
            LandingStatus.QUEUED,
            host=self._host,
            repository_path=repository,
            target=target,
            source_branch=ready.branch,
            source_commit=ready.commit,
            done_at=ready.done_at,
            attempt_id=origin.attempt_id,
            agent_id=origin.agent_id,
            problem=None,
            reason=None,
            returns=0 if is_given_up else landing.returns,  # a person looked at it
        )
        return moved or LandingStore(tx).get(landing.id)

    def _build_landing(
        self, tx: Transaction, work: LandablePlan, ready: FinishedBranch, target: str
    ) -> Landing:
        origin = self._find_origin(tx, ready.task_id)
        return build_landing(
            tx,
            kind=LandingKind.TASK,
            subject_id=ready.task_id,
            workflow_id=ready.workflow_id,
            task_id=ready.task_id,
            title=ready.name,
            host=self._host,
            repository_path=str(work.repository),
            target=target,
            done_at=ready.done_at,
            source_branch=ready.branch,
            source_commit=ready.commit,
            attempt_id=origin.attempt_id,
            agent_id=origin.agent_id,
        )

    def _find_origin(self, tx: Transaction, task_id: str) -> WorkOrigin:
        return self._origins.find(tx, task_id) or WorkOrigin(None, ClaimStore(tx).find_last_claimer(task_id))

    def resume(self, id: str) -> Landing:
        """Go on with a landing that waited for a person who has decided now."""
        with self._database.transaction() as tx:
            landing = LandingStore(tx).get_for_update(id)
            if landing.status is LandingStatus.WAITING and not has_pending_approval(tx, landing):
                move_landing(tx, landing, LandingStatus.QUEUED, problem=None, reason=None)
        [resumed] = self.advance([id])
        return resumed

    # Working through the queue

    def advance(self, ids: Sequence[str], wait_seconds: float | None = None) -> list[Landing]:
        """Work until nothing can be done about these landings any more; return them as they are then.

        If another process holds the lease of their branch, wait for it: until it is done, or dead and its
        lease is over; or for as long as the caller says.
        """
        deadline = None if wait_seconds is None else time.monotonic() + wait_seconds
        waits = 0
        while True:
            with self._database.reading() as tx:
                landings = LandingStore(tx).find_by_ids(ids)
            pending = [each for each in landings if each.status.is_pending]
            places = dict.fromkeys((each.repository_path, each.target) for each in pending)
            worked = [self._queue.work(*place) for place in places]
            if all(worked):
                break
            if deadline is not None and time.monotonic() > deadline:
                break
            waits += 1
            busy = ", ".join(target for (_, target), done in zip(places, worked, strict=True) if not done)
            current_call().report_progress(
                waits, None, f"Waiting: another process lands onto {busy}, or died less than a minute ago"
            )
            time.sleep(_POLL_SECONDS)
        with self._database.reading() as tx:
            return LandingStore(tx).find_by_ids(ids)

    def list_changers(self, landing: Landing, files: Sequence[str]) -> list[tuple[str, str]] | None:
        """List the commits of the branch, with subjects, that changed files which a landing conflicts in.

        None if it cannot be found out here.
        """
        if (
            landing.host != self._host
            or not landing.source_commit
            or not Path(landing.repository_path).is_dir()
        ):
            return None
        try:
            git = self._open_git(Path(landing.repository_path))
            tip = find_own_branch_tip(git, landing.branch or landing.target)
            base = find_common_ancestor(git, landing.source_commit, tip) if tip else None
            return list_changers(git, base, tip, files, _MAX_CHANGERS) if tip and base else None
        except GitError:  # such as a branch that was removed meanwhile
            return None

    def cancel(self, id: str) -> Landing:
        """Give a landing up that waits for somebody; its branch and its task stay as they are."""
        with self._database.transaction() as tx:
            landing = LandingStore(tx).get_for_update(id)
            if landing.status.is_final:
                raise NotAllowed(f"Landing {id} has ended: {landing.status}.")
            is_worked_on = landing.status in (LandingStatus.CHECKING, LandingStatus.MOVING)
            if is_worked_on and is_branch_held(tx, landing.target):
                raise NotAllowed(
                    f"Landing {id} is {landing.status}: a process works on it on {landing.host}.",
                    suggestion="Wait until it has ended; if it was killed, for half a minute.",
                    recoverable=True,
                )
            ended = move_landing(tx, landing, LandingStatus.CANCELLED, reason=f"Given up by {tx.caller}.")
            return ended or LandingStore(tx).get(id)


def _is_of_interest(skipped: Skipped, request: LandRequest) -> bool:
    """Return whether the answer names it: of what a single task builds on, only what is refused."""
    return skipped.is_refused or request.task_id in (None, skipped.task_id)


def _is_landed_as(last: Landing, ready: FinishedBranch, target: str) -> bool:
    """Return whether exactly this commit has landed there."""
    return (
        last.status is LandingStatus.LANDED and last.target == target and last.source_commit == ready.commit
    )


def _explain_elsewhere(git: Git, landing: Landing) -> str | None:
    """Say why a task cannot land here because of its landing on another machine; None if it can."""
    if landing.status.is_pending:
        return (
            f"{landing.host} lands it since {format_timestamp(landing.updated_at)}: {landing.id} is"
            f" {landing.status}. Wait until it has ended; if {landing.host} is gone, give it up with"
            f" `deepwork landings cancel {landing.id}`, and land again."
        )
    tip = find_own_branch_tip(git, landing.branch or "") if landing.branch else None
    if landing.status is not LandingStatus.LANDED or (tip and contains(git, tip, landing)):
        return None
    return describe_landed_elsewhere(landing)


def build_result(landings: Sequence[Landing], skipped: Sequence[Skipped]) -> LandResult:
    """Build the answer: each landing, and each task that was left out."""
    views = [LandingView.of(each, reason=_explain(each)) for each in landings]
    is_refused = any(each.is_refused for each in skipped)
    is_elsewhere = any(each.host for each in skipped)
    code = choose_exit_code(
        (each.status for each in landings), is_refused=is_refused, is_elsewhere=is_elsewhere
    )
    left_out = [describe_skipped(each) for each in skipped]
    return LandResult(landings=views, skipped=left_out or None, exit_code=code)


def _explain(landing: Landing) -> str | None:
    is_explained = landing.reason or landing.status is not LandingStatus.LANDED
    return landing.reason if is_explained else describe_move(landing)
