"""What tracking needs from jobs, which it must not import."""

from __future__ import annotations

from typing import Protocol

from deepwork.database.transaction import Transaction
from deepwork.tracking.models import JobSessionState


class JobSessionFinder(Protocol):
    """Finds job sessions; implemented by `jobs`."""

    def find_session(self, tx: Transaction, id: str) -> JobSessionState | None:
        """Return the session with this id, or None."""
