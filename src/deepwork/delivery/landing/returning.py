"""Sends work back that cannot land: to the agent that did it, at most twice, then to a person."""

from __future__ import annotations

from deepwork.delivery.landing.interfaces import WorkOrigins
from deepwork.delivery.landing.models import Landing, LandingStatus, Problem
from deepwork.delivery.landing.recorder import LandingRecorder
from deepwork.delivery.landing.rules import may_return
from deepwork.kernel.database.transaction import Transaction
from deepwork.work.plans.status_changes import reopen_task


class WorkReturner:
    """Decides who corrects work that conflicts, is red or was refused."""

    def __init__(self, recorder: LandingRecorder, origins: WorkOrigins | None = None) -> None:
        self._recorder, self._origins = recorder, origins

    def return_work(
        self, tx: Transaction, landing: Landing, branch: str, problem: Problem, text: str
    ) -> Landing:
        """Send work back in this transaction, which holds the lease of the branch.

        Work whose agent has had its tries stays completed: handed out again, it could go on for ever.
        """
        if landing.attempt_id and may_return(landing):
            return self._return_to_attempt(tx, landing, branch, problem, text)
        stopped = self._recorder.move_one(
            tx, landing, LandingStatus.NEEDS_PERSON, branch=branch, problem=problem, reason=text
        )
        if landing.attempt_id is None:  # the next agent that claims the task reads what is wrong
            self._reopen(tx, stopped, text)
        return stopped

    def _return_to_attempt(
        self, tx: Transaction, landing: Landing, branch: str, problem: Problem, text: str
    ) -> Landing:
        returned = self._recorder.move_one(
            tx,
            landing,
            LandingStatus.RETURNED,
            branch=branch,
            problem=problem,
            reason=text,
            returns=landing.returns + 1,
        )
        if self._origins is None or not self._origins.can_continue(tx, returned):
            self._reopen(tx, returned, text)
        return returned

    def _reopen(self, tx: Transaction, landing: Landing, text: str) -> None:
        if landing.task_id is None:
            return
        detail = {"landing": landing.id, "target": landing.target, "branch": landing.branch}
        reopen_task(tx, landing.task_id, text, reason=f"it could not land on {landing.target}", detail=detail)
