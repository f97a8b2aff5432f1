"""What landings need from packages above them, and what they offer to those below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from deepwork.delivery.landing.models import LandedCommit, Landing, WorkOrigin
from deepwork.kernel.database.transaction import Transaction


class Standing(Protocol):
    """What every interface says about a thing: its state, why, and what is next."""

    def to_answer(self) -> dict[str, Any]: ...


class LandingStates(Protocol):
    """Judges landings in one transaction."""

    def judge_landings(self, landings: Sequence[Landing], /) -> Mapping[str, Standing]: ...


class LandingObserver(Protocol):
    """Is called in the transaction that ends a landing, for each commit that became part of a branch."""

    def __call__(self, tx: Transaction, landed: LandedCommit) -> None: ...


class WorkOrigins(Protocol):
    """Tells which attempt did the work of a task, and brings work back to it."""

    def find(self, tx: Transaction, task_id: str) -> WorkOrigin | None:
        """Return the last attempt at the task; None if no attempt of deepwork did it."""

    def can_continue(self, tx: Transaction, landing: Landing) -> bool:
        """Return whether the attempt itself goes on with the work; else the task is reopened for others."""
