"""What landings need from packages above them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from deepwork.delivery.landing.models import Landing, WorkOrigin
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.states import Standing


class LandingStates(Protocol):
    """Judges landings in one transaction."""

    def judge_landings(self, landings: Sequence[Landing], /) -> Mapping[str, Standing]: ...


class WorkOrigins(Protocol):
    """Tells which attempt did the work of a task, and brings work back to it."""

    def find(self, tx: Transaction, task_id: str) -> WorkOrigin | None:
        """Return the last attempt at the task; None if no attempt of deepwork did it."""

    def can_continue(self, tx: Transaction, landing: Landing) -> bool:
        """Return whether the attempt itself goes on with the work; else the task is reopened for others."""
