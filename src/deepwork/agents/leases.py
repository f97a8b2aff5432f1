"""Leases: who holds what, for how long. A claim is one, and any sign of life renews it."""

from __future__ import annotations

from deepwork.agents.models import Lease
from deepwork.database.engine import Row
from deepwork.database.transaction import Transaction


class LeaseStore:
    """Leases, as rows. A row stays when its lease ends, because its epoch must never repeat."""

    def __init__(self, tx: Transaction, lease_ms: int) -> None:
        self._tx = tx
        self._lease_ms = lease_ms

    def take(self, what: str, who: str) -> Lease | None:
        """Give it to the agent, unless another holds it; of two asking at once only one can win.

        The holder keeps its epoch; a new holder gets the next one, which tells late callers that they lost.
        """
        before = self.find(what)
        row = self._tx.one(
            """
            INSERT INTO leases (what, who, epoch, until) VALUES (:what, :who, 1, :until)
                ON CONFLICT (what) DO UPDATE
               SET epoch = CASE WHEN leases.who = :who THEN leases.epoch ELSE leases.epoch + 1 END,
                   who = :who, until = :until
             WHERE leases.who IS NULL OR leases.who = :who OR leases.until < :now
            RETURNING *
            """,
            what=what, who=who, until=self._tx.now + self._lease_ms, now=self._tx.now,
        )  # fmt: skip
        if row is not None and before is not None and before.who not in (None, who):
            self._note_loss(what, before.who)
        return _lease(row)

    def find(self, what: str) -> Lease | None:
        """The lease on this, running or not."""
        return _lease(self._tx.one("SELECT * FROM leases WHERE what = :what", what=what))

    def held_by(self, who: str) -> list[Lease]:
        """What the agent holds, expired leases that nobody took included."""
        rows = self._tx.all("SELECT * FROM leases WHERE who = :who ORDER BY what", who=who)
        return [lease for row in rows if (lease := _lease(row))]

    def renew(self, who: str) -> int:
        """Begin every lease of the agent anew; the number of them."""
        until = self._tx.now + self._lease_ms
        return self._tx.run("UPDATE leases SET until = :until WHERE who = :who", until=until, who=who)

    def release(self, what: str, who: str) -> bool:
        """Give it up; False if the agent did not hold it."""
        freed = self._tx.run(
            "UPDATE leases SET who = NULL, until = 0 WHERE what = :what AND who = :who", what=what, who=who
        )
        return freed == 1

    def release_all(self, who: str) -> list[str]:
        """Give up everything the agent holds; what that was."""
        held = [lease.what for lease in self.held_by(who)]
        self._tx.run("UPDATE leases SET who = NULL, until = 0 WHERE who = :who", who=who)
        return held

    def collect_losses(self, who: str) -> list[str]:
        """What others took from the silent agent since it last asked; told once."""
        rows = self._tx.all("SELECT what FROM lost_leases WHERE who = :who ORDER BY what", who=who)
        if rows:
            self._tx.run("DELETE FROM lost_leases WHERE who = :who", who=who)
        return [row["what"] for row in rows]

    def _note_loss(self, what: str, loser: str | None) -> None:
        self._tx.run(
            "INSERT INTO lost_leases (who, what, lost_at) VALUES (:who, :what, :now) ON CONFLICT DO NOTHING",
            who=loser, what=what, now=self._tx.now,
        )  # fmt: skip


def _lease(row: Row | None) -> Lease | None:
    return None if row is None else Lease(row["what"], row["who"], row["epoch"], row["until"])
