"""What is kept of agents."""

from __future__ import annotations

import json
from collections.abc import Sequence

from deepwork.agents.models import Agent, AgentStatus, Role, Runtime
from deepwork.database.engine import Row, stored
from deepwork.database.statements import where
from deepwork.database.transaction import Transaction
from deepwork.errors import NotFound


class AgentStore:
    """Agents, as rows."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def add(self, agent: Agent) -> None:
        """Keep a new agent."""
        self._tx.insert("agents", _row(agent))

    def get(self, id: str, kind: str = "agent") -> Agent:
        """The agent with this id; an error says what `kind` of agent was missing."""
        return self._one(id, kind, "")

    def names(self, ids: Sequence[str]) -> dict[str, str]:
        """What these agents are called."""
        rows = self._tx.all("SELECT id, name FROM agents WHERE id IN :ids", ids=list(ids))
        return {row["id"]: row["name"] for row in rows}

    def hold(self, id: str, kind: str = "agent") -> Agent:
        """The agent with this id; nobody else changes it until we are done."""
        return self._one(id, kind, self._tx.row_lock)

    def matching(
        self,
        *,
        statuses: Sequence[str] | None = None,
        role: Role | None = None,
        runtime: str | None = None,
        alive_since: int,
        limit: int,
        after: str | None = None,
    ) -> tuple[list[Agent], int]:
        """Agents that match every filter, oldest first, and how many there are in all."""
        conditions = {
            "role = :role": role,
            "runtime = :runtime": runtime,
            f"{_CURRENT_STATUS} IN :statuses": statuses or None,
        }
        values = {
            "role": role, "runtime": runtime, "statuses": statuses,
            "alive_since": alive_since, "after": after,
        }  # fmt: skip
        total = self._tx.value(f"SELECT count(*) FROM agents {where(conditions)}", **values)
        rows = self._tx.all(
            f"SELECT {_COLUMNS} FROM agents {where(conditions | {_AFTER: after})}"
            " ORDER BY created_at, created_seq LIMIT :limit",
            limit=limit, **values,
        )  # fmt: skip
        return [_agent(row) for row in rows], total

    def only_one_of(self, caller: str) -> Agent | None:
        """The agent that this caller registered and that has not left, if there is exactly one."""
        rows = self._tx.all(
            f"SELECT {_COLUMNS} FROM agents"
            " WHERE registered_by = :caller AND unregistered_at IS NULL LIMIT 2",
            caller=caller,
        )
        return _agent(rows[0]) if len(rows) == 1 else None

    def keep(self, before: Agent, after: Agent) -> None:
        """Keep what changed."""
        old = vars(before)
        changed = {name: value for name, value in vars(after).items() if value != old[name]}
        self._tx.update("agents", after.id, _written(changed))

    def newly_silent(self, alive_since: int) -> list[Agent]:
        """Note every agent that fell silent and was not noted before; which those are."""
        rows = self._tx.all(
            f"""
            UPDATE agents SET silent_since = :now
             WHERE id IN (SELECT id FROM agents
                           WHERE silent_since IS NULL AND unregistered_at IS NULL
                             AND last_heartbeat < :alive_since AND said <> 'offline'{self._tx.free_rows})
            RETURNING {_COLUMNS}
            """,
            now=self._tx.now, alive_since=alive_since,
        )  # fmt: skip
        return [_agent(row) for row in rows]

    def _one(self, id: str, kind: str, lock: str) -> Agent:
        if (row := self._tx.one(f"SELECT {_COLUMNS} FROM agents WHERE id = :id{lock}", id=id)) is None:
            raise NotFound(kind, id, suggestion="See agent_list for the agents there are, or register one.")
        return _agent(row)


_AFTER = "(created_at, created_seq) > (SELECT created_at, created_seq FROM agents WHERE id = :after)"
_COLUMNS = ", ".join(Agent.__dataclass_fields__)

# Silence makes an agent offline without anybody writing it down; `rules.status` says the same of one agent.
_CURRENT_STATUS = (
    "CASE WHEN unregistered_at IS NOT NULL OR last_heartbeat < :alive_since THEN 'offline' ELSE said END"
)


_JSON = frozenset({"capabilities", "metadata"})


def _row(agent: Agent) -> Row:
    return _written(vars(agent))


def _written(values: Row) -> Row:
    return values | {name: json.dumps(values[name]) for name in _JSON & values.keys()}


@stored
def _agent(row: Row) -> Agent:
    read = {
        "runtime": Runtime(row["runtime"]),
        "role": Role(row["role"]),
        "said": AgentStatus(row["said"]),
        "capabilities": tuple(json.loads(row["capabilities"])),
        "metadata": json.loads(row["metadata"]),
    }
    return Agent(**(row | read))
