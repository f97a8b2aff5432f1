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

    def take(self, what: str, who: str, *, is_free: bool = False) -> Lease | None:
        """Give it to the agent, unless another holds it; of two asking at once only one can win.

        The holder keeps its epoch; a new holder gets the next one, which tells late callers that they lost.
        Who has seen that nobody holds it, so that nobody is to be told of a loss, may say so.
        """
        before = None if is_free else self.find(what)
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
        lease = _lease(row)
        if lease is not None and before is not None and before.who != who:
            self._note_loss(what, before.who)
        if lease is not None and lease.epoch > 1:
            self.forget_loss(what, who)
        return lease

    def resume(self, what: str, who: str) -> Lease | None:
        """Give it back to who held it last, in the same epoch, unless somebody holds it now."""
        self.forget_loss(what, who)
        return _lease(
            self._tx.one(
                "UPDATE leases SET who = :who, until = :until WHERE what = :what AND who IS NULL RETURNING *",
                what=what, who=who, until=self._tx.now + self._lease_ms,
            )
        )  # fmt: skip

    def find(self, what: str) -> Lease | None:
        """The lease on this, running or not."""
        return _lease(self._tx.one("SELECT * FROM leases WHERE what = :what", what=what))

    def held_by(self, who: str) -> list[Lease]:
        """What the agent holds, expired leases that nobody took included."""
        rows = self._tx.all("SELECT * FROM leases WHERE who = :who ORDER BY what", who=who)
        return [lease for row in rows if (lease := _lease(row))]

    def one_of(self, who: str, preferred: str | None) -> str | None:
        """Something that the agent holds: what it prefers, if it holds that."""
        row = self._tx.one(
            "SELECT what FROM leases WHERE who = :who"
            " ORDER BY CASE WHEN what = :preferred THEN 0 ELSE 1 END, what LIMIT 1",
            who=who, preferred=preferred,
        )  # fmt: skip
        return None if row is None else row["what"]

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

    def expire(self, who: str) -> None:
        """Let everything the agent still holds run out now; whoever comes next takes it back."""
        self._tx.run("UPDATE leases SET until = 0 WHERE who = :who", who=who)

    def lose(self, what: str, who: str | None) -> None:
        """End a lease that ran out; its holder is told at its next sign of life."""
        if who is not None and self.release(what, who):
            self._note_loss(what, who)

    def collect_losses(self, who: str) -> list[str]:
        """What others took from the silent agent since it last asked; told once."""
        rows = self._tx.all("SELECT what FROM lost_leases WHERE who = :who ORDER BY what", who=who)
        if rows:
            self._tx.run("DELETE FROM lost_leases WHERE who = :who", who=who)
        return [row["what"] for row in rows]

    def forget_loss(self, what: str, who: str) -> None:
        """The agent came back before anybody else took it: it lost nothing."""
        self._tx.run("DELETE FROM lost_leases WHERE who = :who AND what = :what", who=who, what=what)

    def _note_loss(self, what: str, loser: str | None) -> None:
        if loser is None:
            return
        self._tx.run(
            "INSERT INTO lost_leases (who, what, lost_at) VALUES (:who, :what, :now) ON CONFLICT DO NOTHING",
            who=loser, what=what, now=self._tx.now,
        )  # fmt: skip


def _lease(row: Row | None) -> Lease | None:
    return None if row is None else Lease(row["what"], row["who"], row["epoch"], row["until"])
