"""Storage of agents."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from deepwork.kernel.call import PERSON_PREFIX
from deepwork.kernel.database.engine import Row, row_parser
from deepwork.kernel.database.statements import build_where
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.errors import NotFound
from deepwork.kernel.records import build_record
from deepwork.work.agents.lease_conditions import CLOCK_TOLERANCE_MS
from deepwork.work.agents.models import Agent, AgentStatus, Role, Runtime


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


def _to_row(agent: Agent) -> Row:
    return _encode_json(vars(agent))


def _encode_json(values: Row) -> Row:
    return values | {name: json.dumps(values[name]) for name in _JSON_COLUMNS & values.keys()}


@row_parser
def _from_row(row: Row) -> Agent:
    row["runtime"] = Runtime(row["runtime"])
    row["role"] = Role(row["role"])
    row["said"] = AgentStatus(row["said"])
    row["capabilities"] = tuple(json.loads(row["capabilities"]))
    row["metadata"] = json.loads(row["metadata"])
    return build_record(Agent, row)
