"""Storage of agents, and of the leases by which they hold things."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from deepwork.kernel.call import PERSON_PREFIX
from deepwork.kernel.database.engine import Row, build_where, row_parser
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.errors import NotFound
from deepwork.kernel.values import build_record, decode, index_members
from deepwork.work.agents.lease_conditions import CLOCK_TOLERANCE_MS, HAS_RUN_OUT
from deepwork.work.agents.models import TAKEN_AWAY, Agent, AgentStatus, Lease, Role, Runtime


class AgentStore:
    """Reads and writes agents."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def add(self, agent: Agent) -> None:
        """Insert a new agent."""
        self._tx.insert("agents", _to_row(agent))

    def get(self, id: str, kind: str = "agent") -> Agent:
        """Return the agent; the NotFound error calls it `kind`, such as sender or recipient."""
        return self._select(id, kind, "")

    def get_names(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the names of these agents by id."""
        rows = self._tx.fetch_all("SELECT id, name FROM agents WHERE id IN :ids", ids=list(ids))
        return {row["id"]: row["name"] for row in rows}

    def get_for_update(self, id: str, kind: str = "agent") -> Agent:
        """Return the agent and lock its row until the transaction ends."""
        return self._select(id, kind, self._tx.row_lock)

    def list_registered_for_update(self, ids: Iterable[str]) -> list[Agent]:
        """Return those of these agents that are registered, locked until the transaction ends."""
        sql = f"""
            SELECT {_COLUMNS} FROM agents WHERE id IN :ids AND unregistered_at IS NULL
             ORDER BY id{self._tx.row_lock}
        """
        return [_from_row(row) for row in self._tx.fetch_all(sql, ids=sorted(set(ids)))]

    def list_matching(
        self,
        *,
        statuses: Sequence[str] | None = None,
        role: Role | None = None,
        runtime: str | None = None,
        alive_since: int,
        limit: int,
        after: str | None = None,
    ) -> tuple[list[Agent], int]:
        """Return a page of the agents that match every filter, oldest first, and their total number."""
        conditions = {
            "role = :role": role,
            "runtime = :runtime": runtime,
            f"{_CURRENT_STATUS_SQL} IN :statuses": statuses or None,
        }
        values = {
            "role": role,
            "runtime": runtime,
            "statuses": statuses,
            "alive_since": alive_since,
            "now": self._tx.now,
            "after": after,
        }
        total = self._tx.fetch_value(f"SELECT count(*) FROM agents {build_where(conditions)}", **values)
        sql = (
            f"SELECT {_COLUMNS} FROM agents {build_where(conditions | {_CREATED_AFTER_CONDITION: after})}"
            " ORDER BY created_at, created_seq LIMIT :limit"
        )
        rows = self._tx.fetch_all(sql, limit=limit, **values)
        return [_from_row(row) for row in rows], total

    def find_only_agent_of(self, caller: str) -> Agent | None:
        """Return the caller's only registered agent; None if it has none or several."""
        sql = (
            f"SELECT {_COLUMNS} FROM agents WHERE registered_by = :caller AND unregistered_at IS NULL LIMIT 2"
        )
        rows = self._tx.fetch_all(sql, caller=caller)
        return _from_row(rows[0]) if len(rows) == 1 else None

    def find_registered_by(self, caller: str) -> str | None:
        """Find the agent that this caller registered last, if it is still registered."""
        sql = (
            "SELECT id FROM agents WHERE registered_by = :caller AND unregistered_at IS NULL"
            " ORDER BY created_at DESC, created_seq DESC LIMIT 1"
        )
        found: str | None = self._tx.fetch_value(sql, caller=caller)
        return found

    def find_only_registered(self, ids: Sequence[str]) -> Agent | None:
        """Return the only one of these agents that is still registered; None if that is none or several."""
        sql = f"SELECT {_COLUMNS} FROM agents WHERE id IN :ids AND unregistered_at IS NULL LIMIT 2"
        rows = self._tx.fetch_all(sql, ids=list(ids)) if ids else []
        return _from_row(rows[0]) if len(rows) == 1 else None

    def list_names_of_agents(self) -> dict[str, str]:
        """Return the names, by id, of the registered agents that do not stand for a person."""
        sql = (
            "SELECT id, name FROM agents WHERE unregistered_at IS NULL AND registered_by NOT LIKE :persons"
            " ORDER BY created_seq"
        )
        return {row["id"]: row["name"] for row in self._tx.fetch_all(sql, persons=f"{PERSON_PREFIX}%")}

    def save(self, before: Agent, after: Agent) -> None:
        """Update the columns that changed."""
        old = vars(before)
        changed = {name: value for name, value in vars(after).items() if value != old[name]}
        self._tx.update("agents", after.id, _encode_json(changed))

    def mark_newly_silent(self, alive_since: int) -> list[Agent]:
        """Mark and return every agent that fell silent since the last call."""
        sql = f"""
            UPDATE agents SET silent_since = :now
             WHERE id IN (SELECT id FROM agents
                           WHERE {_COUNTS_AS_ALIVE_CONDITION}
                             AND {_IS_SILENT_CONDITION}{self._tx.free_rows})
            RETURNING {_COLUMNS}
        """
        rows = self._tx.fetch_all(sql, now=self._tx.now, alive_since=alive_since)
        return [_from_row(row) for row in rows]

    def find_oldest_heartbeat(self, otherwise: int) -> int:
        """Return the oldest heartbeat of an agent that counts as alive; `otherwise` if there is none."""
        sql = f"SELECT min(last_heartbeat) FROM agents WHERE {_COUNTS_AS_ALIVE_CONDITION}"
        oldest: int | None = self._tx.fetch_value(sql)
        return otherwise if oldest is None else min(oldest, otherwise)

    def _select(self, id: str, kind: str, lock: str) -> Agent:
        if (row := self._tx.fetch_one(f"SELECT {_COLUMNS} FROM agents WHERE id = :id{lock}", id=id)) is None:
            raise NotFound(kind, id, suggestion="List agents with {tool:agent_list}, or register one.")
        return _from_row(row)


_CREATED_AFTER_CONDITION = (
    "(created_at, created_seq) > (SELECT created_at, created_seq FROM agents WHERE id = :after)"
)
_COLUMNS = ", ".join(Agent.__dataclass_fields__)
_COUNTS_AS_ALIVE_CONDITION = "silent_since IS NULL AND unregistered_at IS NULL AND said <> 'offline'"

# A silent agent is offline without any write; must agree with `rules.get_status`.
_IS_SILENT_CONDITION = f"(last_heartbeat < :alive_since OR last_heartbeat > :now + {CLOCK_TOLERANCE_MS})"
_CURRENT_STATUS_SQL = (
    f"CASE WHEN unregistered_at IS NOT NULL OR {_IS_SILENT_CONDITION} THEN 'offline' ELSE said END"
)


_JSON_COLUMNS = frozenset({"capabilities", "metadata"})
_RUNTIMES, _ROLES, _STATUSES = index_members(Runtime), index_members(Role), index_members(AgentStatus)


def _to_row(agent: Agent) -> Row:
    return _encode_json(vars(agent))


def _encode_json(values: Row) -> Row:
    return values | {name: json.dumps(values[name]) for name in _JSON_COLUMNS & values.keys()}


@row_parser
def _from_row(row: Row) -> Agent:
    row["runtime"] = _RUNTIMES[row["runtime"]]
    row["role"] = _ROLES[row["role"]]
    row["said"] = _STATUSES[row["said"]]
    row["capabilities"] = tuple(decode(row["capabilities"]))
    row["metadata"] = decode(row["metadata"])
    return build_record(Agent, row)


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
        """
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
        self._tx.insert_new("lost_leases", {"who": loser, "what": what, "lost_at": self._tx.now})


def _lease_from_row(row: Row | None) -> Lease | None:
    return None if row is None else Lease(row["what"], row["who"], row["epoch"], row["until"])
