"""Lands the work of attempts: the last stage of a run with `--land`."""

from __future__ import annotations

from collections.abc import Callable

from deepwork.delivery.landing.models import Landing, LandingStatus, WorkOrigin
from deepwork.delivery.landing.service import LandingService, LandRequest
from deepwork.delivery.landing.store import LandingStore
from deepwork.delivery.runner.models import NOT_LANDED, Attempt, AttemptStage
from deepwork.delivery.runner.plan_work import PlanWork
from deepwork.delivery.runner.prompts import build_correction_prompt
from deepwork.delivery.runner.reopening import NotClaimed, reopen_for_attempt
from deepwork.delivery.runner.service import AttemptService, move_attempt
from deepwork.delivery.runner.store import AttemptStore
from deepwork.kernel.database.transaction import Database, Transaction, join_transaction
from deepwork.kernel.errors import DeepworkError, NotAllowed
from deepwork.work.plans.stores.task_store import TaskStore

_WAIT_SECONDS = 5.0
"""How long one look waits for another process that lands on the same branch."""


class AttemptOrigins:
    """Tells landings which attempt did the work of a task."""

    def find(self, tx: Transaction, task_id: str) -> WorkOrigin | None:
        """Return the last attempt at the task; None if no attempt of deepwork did it."""
        attempts = AttemptStore(tx).list_of_task(task_id)
        return WorkOrigin(attempts[-1].id, attempts[-1].agent_id) if attempts else None

    def can_continue(self, tx: Transaction, landing: Landing) -> bool:
        """Return whether the attempt waits for the landing, and so goes on with the work itself."""
        attempt = AttemptStore(tx).find(landing.attempt_id or "")
        return attempt is not None and attempt.stage is AttemptStage.LANDING


class AttemptLander:
    """Lands the work of attempts whose tasks are completed. Every step can be repeated after a crash."""

    def __init__(
        self, database: Database, plans: PlanWork, get_landings: Callable[[], LandingService]
    ) -> None:
        self._database, self._plans, self._get_landings = database, plans, get_landings
        self._attempts = AttemptService(database)

    def land(self, attempt: Attempt) -> Attempt | None:
        """Land the work, send it back to the same session, or end the attempt for a person to look."""
        try:
            landing = self._find_unanswered(attempt) or self._advance(attempt)
        except DeepworkError as error:
            return self._end(attempt, f"{NOT_LANDED} {error.message}")
        if landing is None or landing.status is LandingStatus.LANDED:
            return self._end(attempt, None)
        if landing.status is LandingStatus.RETURNED:
            return self._continue(attempt, landing)
        if landing.status.is_pending and not landing.reason:
            return attempt  # another process lands on the same branch: look again
        return self._end(attempt, landing.reason or f"Its landing is {landing.status}.")

    def _find_unanswered(self, attempt: Attempt) -> Landing | None:
        """Return the landing if it was returned, and the work was not reported again since."""
        with self._database.reading() as tx:
            found = LandingStore(tx).find_open(attempt.task_id)
            task = TaskStore(tx).get(attempt.task_id)
        is_returned = found is not None and found.status is LandingStatus.RETURNED
        return found if is_returned and found and task.finished_at == found.done_at else None

    def _advance(self, attempt: Attempt) -> Landing | None:
        request = LandRequest(attempt.workflow_id or "", attempt.task_id)
        result = self._get_landings().land(request, wait_seconds=_WAIT_SECONDS)
        if lacking := next((each for each in result.skipped or () if each.because), None):
            raise NotAllowed(f"{lacking.because}: {lacking.reason}")
        with self._database.reading() as tx:
            return LandingStore(tx).find_newest([attempt.task_id]).get(attempt.task_id)

    def _continue(self, attempt: Attempt, landing: Landing) -> Attempt | None:
        """Open the task again, claim it for the same agent, and tell its session what is wrong."""
        text = landing.reason or "The work could not land."
        with self._database.transaction() as tx, join_transaction(tx):
            detail = {"landing": landing.id, "target": landing.target, "branch": landing.branch}
            try:
                current = reopen_for_attempt(
                    tx, self._plans, attempt, text, reason="it could not land", detail=detail
                )
            except NotClaimed as problem:
                return move_attempt(tx, attempt, AttemptStage.DONE, reason=str(problem))
            if current is None:
                return None
            prompt = build_correction_prompt(text, landing.title)
            return self._attempts.start_again(current, prompt, text)

    def _end(self, attempt: Attempt, reason: str | None) -> Attempt | None:
        with self._database.transaction() as tx, join_transaction(tx):
            ended = move_attempt(tx, attempt, AttemptStage.DONE, reason=reason)
            if ended:
                self._plans.unregister_agent(attempt.agent_id)
            return ended
