"""Lands commits that others prepare for a branch, such as reverts: under its lease, as landings of tasks."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from deepwork.delivery.landing.batches import Blocked, LandingPlace
from deepwork.delivery.landing.checker import Green, MergeChecker, Red
from deepwork.delivery.landing.models import (
    BranchLease,
    Landing,
    LandingKind,
    LandingStatus,
    PreparedCommit,
    Problem,
)
from deepwork.delivery.landing.queue import LandingQueue
from deepwork.delivery.landing.recorder import (
    BranchLeases,
    LandingRecorder,
    LeaseLost,
    add_landing,
    build_landing,
    move_landing,
)
from deepwork.delivery.landing.store import LandingStore
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import GitError
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.merge_commits import CommitFacts, get_commit_facts

_POLL_SECONDS = 0.2
_TRIES = 5


class PreparedLander:
    """Lands prepared commits.

    `land` can be repeated after a crash with the same subject: what has landed is returned, and what was left
    goes on. A branch that is checked out is not moved; the integration branch of the plan gets the commit.
    """

    def __init__(
        self,
        database: Database,
        leases: BranchLeases,
        recorder: LandingRecorder,
        queue: LandingQueue,
        checker: MergeChecker,
        open_git: Callable[[Path], Git],
        host: str,
    ) -> None:
        self._database, self._leases, self._recorder, self._queue = database, leases, recorder, queue
        self._checker, self._open_git, self._host = checker, open_git, host

    def land(self, prepared: PreparedCommit) -> Landing:
        """Build the commit on the tip of its branch, check it, and move the branch; waits for the lease.

        The landing that is returned is `landed`, or `needs_person` with the reason.
        """
        landing = self._store(prepared)
        while not landing.status.is_final:
            with self._leases.hold(prepared.repository_path, prepared.target) as lease:
                if lease is not None:
                    try:
                        return self._land_held(lease, prepared)
                    except LeaseLost:
                        pass  # another process recovers what was begun here
            time.sleep(_POLL_SECONDS)
            landing = self._reload(landing.id)
        return landing

    def find_place(self, repository_path: str, target: str, plan: str | None) -> LandingPlace | Blocked:
        """Find the branch that a commit for this target would move now."""
        return self._queue.find_place(self._open_git(Path(repository_path)), repository_path, target, plan)

    def _store(self, prepared: PreparedCommit) -> Landing:
        with self._database.transaction() as tx:
            store = LandingStore(tx)
            last = store.find_newest([prepared.subject_id]).get(prepared.subject_id)
            if last and last.status is LandingStatus.LANDED:
                return last
            if last is None or last.status.is_final:
                last = _build_landing(tx, prepared, self._host)
                add_landing(tx, last)
            elif not last.status.is_pending:
                last = move_landing(tx, last, LandingStatus.QUEUED, problem=None, reason=None) or last
            return last

    def _reload(self, id: str) -> Landing:
        with self._database.reading() as tx:
            return LandingStore(tx).get(id)

    def _land_held(self, lease: BranchLease, prepared: PreparedCommit) -> Landing:
        self._queue.recover(lease, prepared.repository_path)
        git = self._open_git(Path(prepared.repository_path))
        for _ in range(_TRIES):
            landing = self._find_current(prepared)
            if landing.status is not LandingStatus.QUEUED:
                return landing
            place = self._queue.choose_place(git, landing)
            if isinstance(place, Blocked):
                return self._stop(lease, landing, place.problem, place.reason)
            ended = self._land_at(lease, git, place, landing, prepared)
            if not ended.status.is_pending:
                return ended
        raise GitError(f"The branch {prepared.target!r} is moved by others all the time.")

    def _find_current(self, prepared: PreparedCommit) -> Landing:
        with self._database.reading() as tx:
            return LandingStore(tx).find_newest([prepared.subject_id])[prepared.subject_id]

    def _land_at(
        self, lease: BranchLease, git: Git, place: LandingPlace, landing: Landing, prepared: PreparedCommit
    ) -> Landing:
        facts = self._build(lease, git, place, prepared)
        if facts.commit == place.start:
            [ended] = self._recorder.move(
                lease, [landing], LandingStatus.LANDED, branch=place.branch, reason="It changes nothing."
            )
            return ended
        [checking] = self._recorder.move(
            lease,
            [landing],
            LandingStatus.CHECKING,
            branch=place.branch,
            base_commit=place.tip,
            merge_commit=facts.commit,
            merge_tree=facts.tree,
            branch_commit=facts.commit,
        )
        if problem := self._find_red(lease, place, checking, prepared):
            return self._stop(lease, checking, *problem)
        project = Path(prepared.project_path or prepared.repository_path)
        self._checker.require_contents(project, place.start, facts.commit)
        [moving] = self._recorder.move(lease, [checking], LandingStatus.MOVING)
        [ended] = self._queue.finish_move(lease, [moving])
        return ended

    def _build(
        self, lease: BranchLease, git: Git, place: LandingPlace, prepared: PreparedCommit
    ) -> CommitFacts:
        facts = get_commit_facts(git, prepared.build(place.start))
        self._leases.renew(lease)
        if facts.commit != place.start and facts.parents[:1] != (place.start,):
            raise AssertionError(f"{facts.commit} was not built on {place.start}.")
        return facts

    def _find_red(
        self, lease: BranchLease, place: LandingPlace, landing: Landing, prepared: PreparedCommit
    ) -> tuple[Problem, str] | None:
        """Return why the checks do not pass; a prepared commit goes to a person, no agent made it."""
        project = Path(prepared.project_path or prepared.repository_path)
        verdict = self._checker.check(
            lease, project, landing.id, landing.merge_commit or "", place.target_tip, prepared.checks
        )
        if isinstance(verdict, Green):
            return None
        if isinstance(verdict, Red):
            return Problem.RED, verdict.failure
        return Problem.CHECKS, verdict.reason

    def _stop(self, lease: BranchLease, landing: Landing, problem: Problem, reason: str) -> Landing:
        [stopped] = self._recorder.move(
            lease, [landing], LandingStatus.NEEDS_PERSON, problem=problem, reason=reason
        )
        return stopped


def _build_landing(tx: Transaction, prepared: PreparedCommit, host: str) -> Landing:
    names = ("subject_id", "workflow_id", "task_id", "title", "repository_path", "target")
    about = {name: getattr(prepared, name) for name in names}
    return build_landing(tx, kind=LandingKind.COMMIT, host=host, done_at=tx.now, **about)
