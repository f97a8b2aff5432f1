"""Finishes attempts: checks and commits the work, completes the task, lands it; or lets the next one try."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepwork.delivery.landing.models import Landing, LandingStatus, WorkOrigin
from deepwork.delivery.landing.store import LandingStore
from deepwork.delivery.provenance.store import NO_LINKS, LinkRecorder, Maker, PreparedLinks
from deepwork.delivery.runner.claiming import find_next_profile
from deepwork.delivery.runner.models import NOT_LANDED, Attempt, AttemptStage, ParkedFor
from deepwork.delivery.runner.plan_work import PlanWork
from deepwork.delivery.runner.prompts import build_correction_prompt, build_words_prompt
from deepwork.delivery.runner.service import AttemptService, move_attempt
from deepwork.delivery.runner.store import AttemptStore, RunStore
from deepwork.delivery.runner.wish_work import WishWork
from deepwork.delivery.runner.words import TOLD, has_unheard_words
from deepwork.kernel.database.transaction import Database, Transaction, join_transaction
from deepwork.kernel.errors import Code, DeepworkError, GateClosed, NotAllowed
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.refs import get_commit, read_commits
from deepwork.kernel.git.uncommitted import TreeChanged, commit_uncommitted, list_uncommitted
from deepwork.kernel.values import copy_with
from deepwork.work.plans.models import Task, TaskStatus, list_required_checks
from deepwork.work.plans.status_changes import reopen_task
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.task_store import TaskStore
from deepwork.work.plans.task_proofs import TaskProver
from deepwork.work.workspaces.finished_work import get_expected_files, is_completed_work
from deepwork.work.workspaces.store import WorkspaceStore

if TYPE_CHECKING:
    from deepwork.delivery.landing.responses import LandResult

_MAX_OUTCOME = 4000
_NO_OUTCOME = "The agent ended without a message."
_CHANGED = "The files or commits in its tree changed after it was completed, so it is completed again."
_FOR_PERSON = (Code.CHECKS_NOT_TRUSTED, Code.CHECKS_GUARDED)
log = logging.getLogger("deepwork")


class AttemptFinisher:
    """Ends attempts: completes their tasks, or releases them."""

    def __init__(
        self,
        database: Database,
        plans: PlanWork,
        prover: TaskProver,
        open_git: Callable[[Path], Git],
        recorder: LinkRecorder,
    ) -> None:
        self._database, self._plans, self._prover, self._open_git = database, plans, prover, open_git
        self._recorder = recorder
        self._attempts = AttemptService(database)
        self._wishes = WishWork(database, plans, open_git)

    def finish(self, attempt: Attempt) -> Attempt | None:
        """Complete the task if its work counts. Every step can be repeated after a crash."""
        with self._database.reading() as tx:
            task = TaskStore(tx).get(attempt.task_id)
        if task.status is TaskStatus.COMPLETED and not self._commit_completed(attempt, task):
            again = self._open_again(attempt)
            if again is None or again.stage.is_final:
                return again
            attempt, task = again, copy_with(task, status=TaskStatus.IN_PROGRESS)
        if not task.status.is_done:
            try:
                if problem := self._find_problem(attempt, task):
                    return self.fail(attempt, problem)
                self._prover.prove(task.id, attempt.agent_id, attempt.claim_epoch)
                if self._has_unheard_words(task):  # said while the checks ran
                    prompt = build_words_prompt(task.name)
                    return self._attempts.start_again(attempt, prompt, TOLD, is_wanted=True)
                self._commit(attempt, task)
                self._plans.complete(attempt, attempt.outcome or _NO_OUTCOME)
            except GateClosed as closed:
                return self._handle_closed_gate(attempt, closed)
        elif task.status is TaskStatus.SKIPPED:
            self._commit(attempt, task)
        return self._end_or_land(attempt)

    def fail(
        self, attempt: Attempt, reason: str, stage: AttemptStage = AttemptStage.FAILED
    ) -> Attempt | None:
        """End the attempt as failed; release the task for the next one, or let it wait for a person."""
        with self._database.transaction() as tx, join_transaction(tx):
            run = RunStore(tx).find(attempt.run_id)
            ended = move_attempt(tx, attempt, stage, reason=reason)
            if ended is None or run is None:
                return None
            task = TaskStore(tx).get(attempt.task_id)
            if task.claimed_by == attempt.agent_id and not task.status.is_done:
                if find_next_profile(tx, run, task):
                    # The next attempt reads the whole reason: once is enough.
                    self._plans.release(attempt, reason.partition("\n")[0])
                else:
                    self._give_up(attempt, task, reason)
                    ended = move_attempt(tx, ended, stage, exhausted=1)
            self._plans.unregister_agent(attempt.agent_id)
            return ended

    def stop(self, attempt: Attempt, reason: str) -> Attempt | None:
        """End the attempt because the run ends or the task was taken away; its tree stays."""
        with self._database.transaction() as tx, join_transaction(tx):
            ended = move_attempt(tx, attempt, AttemptStage.STOPPED, reason=reason)
            task = TaskStore(tx).get(attempt.task_id)
            if ended and task.claimed_by == attempt.agent_id and not task.status.is_done:
                self._plans.release(attempt, reason)
            self._plans.unregister_agent(attempt.agent_id)
            return ended

    def give_up(self, attempt: Attempt, reason: str) -> Attempt | None:
        """End the attempt because a person wants that; the task fails until a person retries it."""
        with self._database.transaction() as tx, join_transaction(tx):
            ended = move_attempt(tx, attempt, AttemptStage.STOPPED, reason=reason, exhausted=1, wish=None)
            if ended is None:
                return None
            task = TaskStore(tx).get(attempt.task_id)
            if task.claimed_by == attempt.agent_id and not task.status.is_done:
                self._give_up(attempt, task, reason)
            self._plans.unregister_agent(attempt.agent_id)
            return ended

    def end_reviewed(self, attempt: Attempt) -> Attempt | None:
        """End an attempt whose task a person has completed by an approval."""
        return self._end_or_land(attempt)

    # The work

    def _has_unheard_words(self, task: Task) -> bool:
        with self._database.reading() as tx:
            return has_unheard_words(tx, task.id)

    def _find_problem(self, attempt: Attempt, task: Task) -> str | None:
        """Return why the work cannot count although nothing checks it."""
        with self._database.reading() as tx:
            workflow = PlanStore(tx).get(task.workflow_id)
            workspace = WorkspaceStore(tx).find_active(task.workspace_id)
        if not Path(attempt.tree or "").is_dir():
            return f"Its worktree is gone: {attempt.tree}."
        if problem := self._wishes.find_problem(attempt):
            return problem
        if list_required_checks(workflow.requirements, task.requirements):
            return None
        if task.requirements and task.requirements.changes == "none":
            return None
        git = self._open_git(Path(attempt.tree or ""))
        is_changed = list_uncommitted(git) or get_commit(git, "HEAD") != (workspace and workspace.base_commit)
        return None if is_changed else "The agent ended without an error, but it changed no file."

    def _commit(self, attempt: Attempt, task: Task) -> None:
        tree = Path(attempt.tree or "")
        if not tree.is_dir() or not attempt.branch or self._wishes.is_reading(attempt):
            return
        commit_uncommitted(self._open_git(tree), attempt.branch, build_commit_message(attempt, task))

    def _commit_completed(self, attempt: Attempt, task: Task) -> bool:
        """Commit what the agent completed the task with; False if the tree is not as it was then."""
        tree = Path(attempt.tree or "")
        if not tree.is_dir() or not attempt.branch or self._wishes.is_reading(attempt):
            return True
        git, message = self._open_git(tree), build_commit_message(attempt, task)
        try:
            commit_uncommitted(git, attempt.branch, message, get_expected_files(task))
        except TreeChanged:
            return False
        return all(is_completed_work(task, tip) for tip in read_commits(git, ["HEAD"]).values())

    def _open_again(self, attempt: Attempt) -> Attempt | None:
        """Open a task again whose tree changed after it was completed: it has to be completed as it is."""
        with self._database.transaction() as tx, join_transaction(tx):
            try:
                return reopen_for_attempt(tx, self._plans, attempt, _CHANGED, reason="its files changed")
            except NotClaimed as problem:
                ended = move_attempt(tx, attempt, AttemptStage.FAILED, reason=str(problem))
                self._plans.unregister_agent(attempt.agent_id)
                return ended

    def _handle_closed_gate(self, attempt: Attempt, closed: GateClosed) -> Attempt | None:
        if closed.code is Code.CHECKS_RUNNING:
            return attempt
        if closed.code is Code.NEEDS_APPROVAL:
            return self._attempts.move(attempt, AttemptStage.REVIEWING, reason=closed.message)
        if closed.code in _FOR_PERSON:
            waits_for = ParkedFor.TRUST if closed.command else ParkedFor.PERSON
            reason = "\n".join(filter(None, [closed.message, closed.command]))
            return self._attempts.move(attempt, AttemptStage.PARKED, parked_for=waits_for, reason=reason)
        return self.fail(attempt, describe_closed_gate(closed))

    # The end

    def _end_or_land(self, attempt: Attempt) -> Attempt | None:
        """End an attempt whose task is completed, unless its work is to land first; link its commits."""
        is_reading = self._wishes.is_reading(attempt)
        if is_reading:
            self._wishes.close_tree(attempt)
        with self._database.reading() as tx:
            task = TaskStore(tx).get(attempt.task_id)
            workspace = WorkspaceStore(tx).find_active(task.workspace_id)
        links = prepare_links(self._recorder, attempt, workspace.base_commit if workspace else None)
        with self._database.transaction() as tx, join_transaction(tx):
            links.store(tx)
            run = RunStore(tx).find(attempt.run_id)
            if run is not None and run.options.land and attempt.branch and not is_reading:
                return move_attempt(tx, attempt, AttemptStage.LANDING, reason=None)
            ended = move_attempt(tx, attempt, AttemptStage.DONE, reason=None)
            if ended:
                self._plans.unregister_agent(attempt.agent_id)
            return ended

    def _give_up(self, attempt: Attempt, task: Task, reason: str) -> None:
        """Let the task fail for good: every agent of the chain has tried as often as it may."""
        with self._database.transaction() as tx:
            TaskStore(tx).use_up_attempts(task)
        self._plans.fail(attempt, reason)


def build_commit_message(attempt: Attempt, task: Task) -> str:
    """Build the message of the commit that has an attempt's work, with the trailers that name it."""
    trailers = [
        f"Deepwork-Task: {task.id}",
        f"Deepwork-Attempt: {attempt.id}",
        f"Deepwork-Agent: {attempt.agent_id}",
    ]
    subject = " ".join(task.name.split())[:72] or task.id
    outcome = (attempt.outcome or "").strip()[:_MAX_OUTCOME]
    return "\n\n".join(part for part in (subject, outcome, "\n".join(trailers)) if part)


def describe_closed_gate(closed: GateClosed) -> str:
    """Say why the work does not count, with what each check printed: its failing tests first."""
    outputs = [str(check.get("output") or "") for check in closed.evidence.get("checks", [])]
    return "\n\n".join([closed.message, *filter(None, outputs)])


def is_lost_claim(error: DeepworkError) -> bool:
    """Return whether an error says that the attempt's claim is not valid any more."""
    return error.code in (Code.STALE_CLAIM, Code.NOT_CLAIMED, Code.NOT_ASSIGNED)


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
        self, database: Database, plans: PlanWork, land_task: Callable[[Attempt], LandResult]
    ) -> None:
        """`land_task` lands the task of an attempt, as far as that is possible now."""
        self._database, self._plans, self._land_task = database, plans, land_task
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
        result = self._land_task(attempt)
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


class NotClaimed(Exception):
    """The task is open again, but the agent of the attempt could not claim it; the message says why."""


def reopen_for_attempt(
    tx: Transaction,
    plans: PlanWork,
    attempt: Attempt,
    text: str,
    *,
    reason: str,
    detail: Mapping[str, Any] | None = None,
) -> Attempt | None:
    """Open the task again and claim it for the same agent; None if another runner changed the attempt."""
    reopen_task(tx, attempt.task_id, text, reason=reason, detail=detail)
    claimed = plans.claim(attempt.task_id, attempt.agent_id)
    if not claimed.success:
        raise NotClaimed(f"{text}\n{claimed.message or ''}")
    after: Attempt = copy_with(attempt, updated_at=tx.now, claim_epoch=claimed.claim_epoch)
    return after if AttemptStore(tx).save(attempt, after) else None


def prepare_links(recorder: LinkRecorder, attempt: Attempt, base: str | None) -> PreparedLinks:
    """Describe what an attempt made; a failure is logged, because the work itself is done and committed."""
    tree = Path(attempt.tree or "")
    if not attempt.branch or not tree.is_dir():
        return NO_LINKS
    maker = Maker(attempt.task_id, attempt.workflow_id, attempt.id, attempt.agent_id)
    try:
        return recorder.prepare_attempt(tree, maker, base)
    except (DeepworkError, OSError) as error:
        log.warning("Cannot link the commits of attempt %s with it: %s", attempt.id, error)
        return NO_LINKS
