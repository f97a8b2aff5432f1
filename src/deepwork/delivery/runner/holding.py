"""What people do with one attempt: pause it, take its session over and give it back, or stop it.

An operation stores what a person wants; the runner ends the agent, and starts the session again when the
person says so. Nothing is started in the tree meanwhile, whichever process is killed.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from deepwork.delivery.runner.adapters import get_adapter
from deepwork.delivery.runner.models import Attempt, AttemptStage, AttemptWish, ParkedFor, Run, RunEvent
from deepwork.delivery.runner.responses import AttemptView, build_payload, describe_attempt
from deepwork.delivery.runner.rules import HELD_FOR, explain_hold, is_held
from deepwork.delivery.runner.store import AttemptStore, RunStore
from deepwork.delivery.runner.words import name_person
from deepwork.delivery.runner.workspace_setup import find_project_folder
from deepwork.kernel.answers import Act, Answer, Id, offer
from deepwork.kernel.call import is_person
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.errors import Code, NotAllowed
from deepwork.kernel.operations import Traits, operation
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import copy_with

_BEFORE_ITS_END = frozenset({AttemptStage.CLAIMED, AttemptStage.PREPARING, AttemptStage.RUNNING})
"""The stages in which an agent works, or is about to be started."""
_MAY = "{} can be paused, taken over or stopped while its agent works or waits."


class Takeover(Answer):
    """How a person continues the session of an attempt in a terminal."""

    host: str
    """The machine that has the tree and the session."""
    folder: str | None = None
    command: str | None = None
    """What to type there; without a session, it only goes to the folder."""
    has_session: bool
    give_back: str
    """The command that lets the runner continue the session."""


class HeldAttempt(AttemptView):
    """An attempt that a person has asked something of, and how to continue its session."""

    takeover: Takeover | None = None


# Rules


@dataclass(frozen=True)
class HoldDecision:
    """What becomes of an attempt at once; the runner does what the wish says."""

    wish: AttemptWish | None
    parked_for: ParkedFor | None = None
    """What it is parked for, if no agent has to be ended first."""


def decide(attempt: Attempt, wanted: AttemptWish) -> HoldDecision | None:
    """Decide what becomes of an attempt; None if it is so already. Raises NotAllowed."""
    if attempt.stage.is_final:
        raise NotAllowed(f"Attempt {attempt.id} has ended: it is {attempt.stage}.")
    if wanted is AttemptWish.CONTINUE:
        return _decide_to_continue(attempt)
    if attempt.stage is not AttemptStage.PARKED:
        if attempt.stage not in _BEFORE_ITS_END:
            raise NotAllowed(
                f"The agent of {attempt.id} has ended; its work is {_STAGES[attempt.stage]}.",
                suggestion=_MAY.format("An attempt"),
            )
        return None if attempt.wish is wanted else HoldDecision(wanted)
    if wanted is AttemptWish.STOP:
        return HoldDecision(AttemptWish.STOP)
    return _decide_parked(attempt, wanted)


_STAGES: Mapping[AttemptStage, str] = {
    AttemptStage.CHECKING: "being checked",
    AttemptStage.REVIEWING: "waiting for your approval",
    AttemptStage.LANDING: "landing",
}


def _decide_to_continue(attempt: Attempt) -> HoldDecision | None:
    if is_held(attempt):
        return (
            None
            if attempt.wish is AttemptWish.CONTINUE
            else HoldDecision(AttemptWish.CONTINUE, attempt.parked_for)
        )
    if attempt.wish is not None:
        return HoldDecision(None)  # what was wanted before is not wanted any more
    raise NotAllowed(
        f"Attempt {attempt.id} is neither paused nor taken over.",
        suggestion=f"`deepwork runs show {attempt.run_id}` says what it waits for.",
    )


def _decide_parked(attempt: Attempt, wanted: AttemptWish) -> HoldDecision | None:
    held_for = HELD_FOR[wanted]
    if attempt.parked_for is held_for and attempt.wish is not AttemptWish.CONTINUE:
        return None
    if wanted is AttemptWish.PAUSE and attempt.parked_for is not ParkedFor.LIMIT:
        raise NotAllowed(
            f"No agent of attempt {attempt.id} works: {attempt.reason}",
            suggestion=f"`deepwork runs give-back {attempt.id}` lets a session continue that was taken over.",
        )
    # The wish is stored, too: a runner may be about to start the agent again.
    return HoldDecision(wanted, held_for)


def offer_attempt_actions(attempt: Attempt) -> list[Act]:
    """List what a person can do about an attempt."""
    if attempt.stage.is_final or attempt.stage in _STAGES:
        return []
    about: dict[str, Any] = {"attempt_id": attempt.id}
    stop = offer("Stop", "stop_attempt", **about)
    if attempt.wish is AttemptWish.STOP:
        return []
    if attempt.wish is AttemptWish.CONTINUE:
        return [stop]
    if attempt.parked_for is ParkedFor.TAKEN or attempt.wish is AttemptWish.TAKE:
        return [offer("Hand back", "continue_attempt", **about), stop]
    take = offer("Take over", "take_attempt", **about)
    if attempt.parked_for is ParkedFor.PAUSED or attempt.wish is AttemptWish.PAUSE:
        return [offer("Continue", "continue_attempt", **about), take, stop]
    may_pause = attempt.stage is not AttemptStage.PARKED or attempt.parked_for is ParkedFor.LIMIT
    return [*([offer("Pause", "pause_attempt", **about)] if may_pause else []), take, stop]


def describe_takeover(attempt: Attempt, run: Run) -> Takeover:
    """Describe how a person continues the session of an attempt in a terminal."""
    session = attempt.vendor_session if attempt.starts else None
    words = get_adapter(attempt.vendor).build_takeover(session) if session else None
    folder = _find_folder(attempt, run)
    parts = [f"cd {shlex.quote(folder)}"] if folder else []
    parts += [shlex.join(words)] if words else []
    return Takeover(
        host=attempt.host,
        folder=folder,
        command=" && ".join(parts) or None,
        has_session=words is not None,
        give_back=f"deepwork runs give-back {attempt.id}",
    )


def _find_folder(attempt: Attempt, run: Run) -> str | None:
    """Return the folder in which the agent was started: vendors find a session only there."""
    if attempt.tree is None:
        return None
    if attempt.workflow_id is None:
        return attempt.tree
    return str(find_project_folder(Path(run.repository_path), Path(attempt.tree)))


# For people


class AttemptOperations:
    """What people do with one attempt."""

    traits: ClassVar = Traits(toolset="runner", people_only=True, one_transaction=True)

    def __init__(self, database: Database) -> None:
        self._database = database

    @operation("work", for_people=True)
    def pause_attempt(self, attempt_id: Id) -> HeldAttempt:
        """End the agent of an attempt, and let its session continue when a person says so."""
        return self._ask(attempt_id, AttemptWish.PAUSE)

    @operation("work", for_people=True)
    def take_attempt(self, attempt_id: Id) -> HeldAttempt:
        """End the agent of an attempt: a person works in its session and tree, where nothing else starts."""
        return self._ask(attempt_id, AttemptWish.TAKE)

    @operation("work", for_people=True)
    def continue_attempt(self, attempt_id: Id) -> HeldAttempt:
        """Let the session of an attempt continue that was paused or taken over."""
        return self._ask(attempt_id, AttemptWish.CONTINUE)

    @operation("work", for_people=True)
    def stop_attempt(self, attempt_id: Id) -> HeldAttempt:
        """End an attempt; its tree stays, and nobody tries its task again before a person says so."""
        return self._ask(attempt_id, AttemptWish.STOP)

    @operation("read")
    def get_takeover(self, id: Id) -> Takeover:
        """How a person continues the session of an attempt in a terminal, once it was taken over."""
        with self._database.reading() as tx:
            attempt = AttemptStore(tx).get(id)
            [run] = RunStore(tx).find_by_ids([attempt.run_id])
        return describe_takeover(attempt, run)

    def _ask(self, id: str, wanted: AttemptWish) -> HeldAttempt:
        with self._database.transaction() as tx:
            if not is_person(tx.caller):
                raise NotAllowed("Only a person can do this with an agent.", code=Code.UNAUTHORIZED)
            store = AttemptStore(tx)
            attempt = store.get_for_update(id)
            decision = decide(attempt, wanted)
            if decision is not None:
                changes = _list_changes(attempt, decision, tx.caller)
                after: Attempt = copy_with(attempt, updated_at=tx.now, **changes)
                store.save(attempt, after)
                tx.emit(RunEvent.ATTEMPT_UPDATED, build_payload(describe_attempt(after)), after.workflow_id)
                attempt = after
            [run] = RunStore(tx).find_by_ids([attempt.run_id])
        return HeldAttempt(**vars(describe_attempt(attempt)), takeover=describe_takeover(attempt, run))


def _list_changes(attempt: Attempt, decision: HoldDecision, caller: str) -> dict[str, Any]:
    changes: dict[str, Any] = {"wish": decision.wish, "interrupted_by": caller}
    if decision.wish is None and decision.parked_for is None:
        return {"wish": None, "interrupted_by": None}
    if decision.parked_for is not None and decision.parked_for is not attempt.parked_for:
        reason = explain_hold(decision.parked_for, name_person(caller))
        changes |= {"parked_for": decision.parked_for, "reason": reason, "not_before": None}
    return changes
