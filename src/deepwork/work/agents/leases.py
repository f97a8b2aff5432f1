"""Leases: which agent holds which task, and until when. A claim is a lease; any sign of life renews it."""

from __future__ import annotations

from deepwork.kernel.database.engine import Row
from deepwork.kernel.database.transaction import Transaction
from deepwork.work.agents.lease_conditions import HAS_RUN_OUT
from deepwork.work.agents.models import TAKEN_AWAY, Lease


class LeaseStore:
    """Reads and writes leases. `what` is the id of the task, `who` the id of the agent that holds it.

    A row stays when its lease ends, because its epoch must never repeat.
    """

    def __init__(self, tx: Transaction, lease_ms: int) -> None:
        self._tx = tx
        self._lease_ms = lease_ms

    def take(self, what: str, who: str, *, is_free: bool = False) -> Lease | None:
        """Give the lease to the agent, or return None if another agent holds it.

        One upsert decides, so exactly one of several concurrent callers wins. The current holder keeps its
        epoch; a new holder gets the next one, by which late calls of the previous holder are recognised.
        Pass `is_free` if you already know that nobody holds it: no loss has to be recorded then.
        """
        before = None if is_free else self.find(what)
        sql = f"""
            INSERT INTO leases (what, who, epoch, until) VALUES (:what, :who, 1, :until)
                ON CONFLICT (what) DO UPDATE
               SET epoch = CASE WHEN leases.who = :who THEN leases.epoch ELSE leases.epoch + 1 END,
                   who = :who, until = :until
             WHERE leases.who IS NULL OR leases.who = :who OR {HAS_RUN_OUT}
            RETURNING *
        """  # noqa: S608 - a constant
        row = self._tx.fetch_one(
            sql, what=what, who=who, until=self._tx.now + self._lease_ms, now=self._tx.now
        )
        lease = _lease_from_row(row)
        if lease is not None and before is not None and before.who != who:
            self._record_loss(what, before.who)
        if lease is not None and lease.epoch > 1:
            self.forget_loss(what, who)
        return lease

    def resume(self, what: str, who: str) -> Lease | None:
        """Give the lease back to its last holder in the same epoch; None if an agent holds it now."""
        self.forget_loss(what, who)
        sql = "UPDATE leases SET who = :who, until = :until WHERE what = :what AND who IS NULL RETURNING *"
        return _lease_from_row(
            self._tx.fetch_one(sql, what=what, who=who, until=self._tx.now + self._lease_ms)
        )

    def find(self, what: str) -> Lease | None:
        """Return the lease, expired or not; None if there never was one."""
        return _lease_from_row(self._tx.fetch_one("SELECT * FROM leases WHERE what = :what", what=what))

    def list_held_by(self, who: str) -> list[Lease]:
        """Return the agent's leases, including expired ones that nobody else took."""
        rows = self._tx.fetch_all("SELECT * FROM leases WHERE who = :who ORDER BY what", who=who)
        return [lease for row in rows if (lease := _lease_from_row(row))]

    def find_held(self, who: str, preferred: str | None) -> str | None:
        """Return the id of something the agent holds: `preferred` if it holds that, else the first by id."""
        sql = (
            "SELECT what FROM leases WHERE who = :who"
            " ORDER BY CASE WHEN what = :preferred THEN 0 ELSE 1 END, what LIMIT 1"
        )
        row = self._tx.fetch_one(sql, who=who, preferred=preferred)
        return None if row is None else row["what"]

    def renew(self, who: str) -> int:
        """Extend every lease of the agent by a full lease time; return how many there are."""
        until = self._tx.now + self._lease_ms
        return self._tx.execute("UPDATE leases SET until = :until WHERE who = :who", until=until, who=who)

    def release(self, what: str, who: str, *, is_taken_away: bool = False) -> bool:
        """Release the lease; False if the agent did not hold it."""
        sql = "UPDATE leases SET who = NULL, until = :until WHERE what = :what AND who = :who"
        until = TAKEN_AWAY if is_taken_away else 0
        freed = self._tx.execute(sql, what=what, who=who, until=until)
        return freed == 1

    def revoke(self, what: str) -> int | None:
        """End the lease and begin the next epoch, so that its last holder is stale; None without a lease."""
        sql = """
            UPDATE leases SET who = NULL, until = :until, epoch = epoch + 1 WHERE what = :what RETURNING epoch
        """
        epoch: int | None = self._tx.fetch_value(sql, what=what, until=TAKEN_AWAY)
        return epoch

    def expire(self, who: str) -> None:
        """Let all leases of the agent expire now, so that other agents can take them."""
        self._tx.execute("UPDATE leases SET until = 0 WHERE who = :who", who=who)

    def release_as_lost(self, what: str, who: str | None) -> None:
        """Release an expired lease and record the loss, to be reported at its holder's next heartbeat."""
        if who is not None and self.release(what, who):
            self._record_loss(what, who)

    def collect_losses(self, who: str) -> list[str]:
        """Return what the agent lost since its last call, and forget it: each loss is reported once."""
        rows = self._tx.fetch_all("SELECT what FROM lost_leases WHERE who = :who ORDER BY what", who=who)
        if rows:
            self._tx.execute("DELETE FROM lost_leases WHERE who = :who", who=who)
        return [row["what"] for row in rows]

    def forget_loss(self, what: str, who: str) -> None:
        """Remove the record of a loss: the agent came back before another agent took the lease."""
        self._tx.execute("DELETE FROM lost_leases WHERE who = :who AND what = :what", who=who, what=what)

    def _record_loss(self, what: str, loser: str | None) -> None:
        if loser is None:
            return
        sql = "INSERT INTO lost_leases (who, what, lost_at) VALUES (:who, :what, :now) ON CONFLICT DO NOTHING"
        self._tx.execute(sql, who=loser, what=what, now=self._tx.now)


def _lease_from_row(row: Row | None) -> Lease | None:
    return None if row is None else Lease(row["what"], row["who"], row["epoch"], row["until"])
