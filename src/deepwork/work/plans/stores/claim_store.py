"""Queries about tasks in hand: who holds them, how long they are active, how the claim before ended."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from deepwork.gates.budgets.models import Budget, Cost
from deepwork.kernel.database.engine import Row, row_parser
from deepwork.kernel.database.json_texts import JsonTexts
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import measure_duration
from deepwork.work.agents.lease_conditions import HAS_RUN_OUT, IS_VALID, VALID_UNTIL
from deepwork.work.agents.models import Lease
from deepwork.work.plans.models import Task, TaskStatus, parse_likely_files, parse_task_requirements
from deepwork.work.plans.rules.levels import ActiveTask, PathQuery
from deepwork.work.plans.stores.plan_store import COLUMNS, RUNNING, read_task

LEASE_EXPIRED = "the lease expired"
"""The reason that the history has for a claim whose holder went silent."""


class ClaimState(NamedTuple):
    """Whether a task can still be claimed."""

    name: str
    status: TaskStatus
    holder: str | None
    """The agent whose lease on the task has not expired."""


class ClaimHistory(NamedTuple):
    """What is known about the claims on a task."""

    own_epoch: int | None
    """The epoch of the agent's last claim."""
    last_epoch: int | None
    """The epoch of the last claim by any agent."""
    lease: Lease | None
    """The lease, expired or not."""


class ClaimStore:
    """Reads claims and their ends."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def find_state(self, task_id: str) -> ClaimState | None:
        """Return whether the task is done and who holds it, without waiting for a lock."""
        sql = f"""
            SELECT name, status, who FROM plan_tasks LEFT JOIN leases ON what = plan_tasks.id AND {IS_VALID}
             WHERE plan_tasks.id = :task_id
        """
        row = self._tx.fetch_one(sql, task_id=task_id, now=self._tx.now)
        return None if row is None else _read_claim_state(row)

    def list_expired_claims(self, workflow_id: str) -> list[tuple[str, str | None, int]]:
        """Return the claimed tasks whose lease has expired, their last holders and their ends; locks them."""
        sql = f"""
            SELECT what, who, until FROM leases
             WHERE what IN (SELECT id FROM plan_tasks WHERE workflow_id = :id AND claimed_by IS NOT NULL)
               AND (who IS NULL OR {HAS_RUN_OUT}) ORDER BY what{self._tx.free_rows}
        """
        rows = self._tx.fetch_all(sql, id=workflow_id, now=self._tx.now)
        return [(row["what"], row["who"], row["until"]) for row in rows]

    def find_lease(self, task_id: str) -> Row | None:
        """Return the last lease of the task: its epoch, when it ends, and its holder, if it has one."""
        sql = f"""
            SELECT leases.who AS agent_id, agents.name AS agent_name, leases.epoch, {VALID_UNTIL} AS until
              FROM leases LEFT JOIN agents ON agents.id = leases.who WHERE leases.what = :task_id
        """
        return self._tx.fetch_one(sql, task_id=task_id, now=self._tx.now)

    def find_last_end(self, task_id: str, before_epoch: int) -> Row | None:
        """Return how a claim on the task last ended, and who held it: the last claim before this epoch."""
        sql = """
            SELECT what, after, reason, by_whom, at, claims.agent_id, agents.name AS agent_name
              FROM plan_history
              LEFT JOIN plan_claims AS claims ON claims.task_id = plan_history.task_id
                   AND claims.epoch = (SELECT max(epoch) FROM plan_claims
                                        WHERE task_id = :task_id AND epoch < :epoch)
              LEFT JOIN agents ON agents.id = claims.agent_id
             WHERE plan_history.task_id = :task_id AND (what = 'released' OR after = 'failed')
             ORDER BY number DESC LIMIT 1
        """
        return self._tx.fetch_one(sql, task_id=task_id, epoch=before_epoch)

    def find_last_change(self, task_id: str) -> Row | None:
        """Return the last entry of the task's history."""
        sql = """
            SELECT what, reason, by_whom FROM plan_history
             WHERE task_id = :task_id ORDER BY number DESC LIMIT 1
        """
        return self._tx.fetch_one(sql, task_id=task_id)

    def find_holders(self, ids: Sequence[str]) -> dict[str, str]:
        """Map those of these tasks that have an unexpired lease to the agents that hold them."""
        if not ids:
            return {}
        sql = f"SELECT what, who FROM leases WHERE what IN :ids AND who IS NOT NULL AND {IS_VALID}"
        rows = self._tx.fetch_all(sql, ids=list(ids), now=self._tx.now)
        return {row["what"]: row["who"] for row in rows}

    def record_claim(self, task_id: str, epoch: int, agent_id: str) -> None:
        """Record which agent claimed the task, and when."""
        row = {"task_id": task_id, "epoch": epoch, "agent_id": agent_id, "claimed_at": self._tx.now}
        self._tx.insert_new("plan_claims", row)

    def find_claim_time(self, task_id: str) -> int | None:
        """Return when the task was last claimed."""
        sql = "SELECT claimed_at FROM plan_claims WHERE task_id = :id ORDER BY epoch DESC LIMIT 1"
        moment: int | None = self._tx.fetch_value(sql, id=task_id)
        return moment

    def find_last_claimer(self, task_id: str) -> str | None:
        """Return the agent that claimed the task last."""
        sql = "SELECT agent_id FROM plan_claims WHERE task_id = :id ORDER BY epoch DESC LIMIT 1"
        agent_id: str | None = self._tx.fetch_value(sql, id=task_id)
        return agent_id

    def find_claimer_at(self, task_id: str, moment: int) -> str | None:
        """Return the agent that claimed the task last before this time."""
        sql = (
            "SELECT agent_id FROM plan_claims WHERE task_id = :id AND claimed_at <= :moment"
            " ORDER BY epoch DESC LIMIT 1"
        )
        agent_id: str | None = self._tx.fetch_value(sql, id=task_id, moment=moment)
        return agent_id

    def list_other_claims(self, agent_id: str, task: Task, limit: int) -> list[tuple[str, int]]:
        """List id and time of the agent's other claims in the same workflow, the newest first."""
        sql = """
            SELECT task_id, claimed_at FROM plan_claims JOIN plan_tasks ON plan_tasks.id = plan_claims.task_id
             WHERE agent_id = :agent_id AND workflow_id = :workflow_id AND task_id <> :id
             ORDER BY claimed_at DESC LIMIT :limit
        """
        values = {"agent_id": agent_id, "workflow_id": task.workflow_id, "id": task.id}
        return [(row["task_id"], row["claimed_at"]) for row in self._tx.fetch_all(sql, limit=limit, **values)]

    def get_claim_history(self, task_id: str, agent_id: str | None) -> ClaimHistory:
        """Return the lease on the task, and the epochs of the last claims by this agent and by any."""
        sql = f"""
            SELECT own, last, what, who, epoch, {VALID_UNTIL} AS until
              FROM (SELECT max(CASE WHEN agent_id = :agent_id THEN epoch END) AS own, max(epoch) AS last
                      FROM plan_claims WHERE task_id = :task_id) AS claims
              LEFT JOIN leases ON what = :task_id
        """
        return _read_claim_history(
            self._tx.fetch_one(sql, task_id=task_id, agent_id=agent_id, now=self._tx.now) or {}
        )

    def find_last_holder(self, task_id: str) -> Row | None:
        """Find the agent that last claimed a planned task, with the task's lease."""
        sql = f"""
            SELECT agents.id, agents.name, claim.claimed_at, leases.who, {VALID_UNTIL} AS until
              FROM plan_claims AS claim JOIN agents ON agents.id = claim.agent_id
              LEFT JOIN leases ON leases.what = claim.task_id
             WHERE claim.task_id = :id ORDER BY claim.epoch DESC LIMIT 1
        """
        return self._tx.fetch_one(sql, id=task_id, now=self._tx.now)

    def list_held_tasks(self, agent_ids: Sequence[str]) -> list[Row]:
        """List the tasks that these agents hold by a valid lease."""
        sql = f"""
            SELECT leases.who, task.id, task.name, task.workflow_id, task.context, plans.name AS run_name,
                   claim.claimed_at
              FROM leases JOIN plan_tasks AS task ON task.id = leases.what
              JOIN plans ON plans.id = task.workflow_id
              LEFT JOIN plan_claims AS claim ON claim.task_id = task.id AND claim.epoch = leases.epoch
             WHERE leases.who IN :ids AND {IS_VALID}
             ORDER BY claim.claimed_at, plans.created_seq, task.position
        """
        return self._tx.fetch_all(sql, ids=list(agent_ids), now=self._tx.now)

    def count_finished_tasks(self, agent_ids: Sequence[str]) -> list[Row]:
        """Count completed and failed tasks by the agent that claimed each last."""
        sql = """
            SELECT claim.agent_id, task.status, count(*) AS tasks FROM plan_claims AS claim
              JOIN plan_tasks AS task ON task.id = claim.task_id
             WHERE claim.agent_id IN :ids AND task.status IN ('completed', 'failed')
               AND claim.epoch = (SELECT max(epoch) FROM plan_claims WHERE task_id = claim.task_id)
             GROUP BY claim.agent_id, task.status
        """
        return self._tx.fetch_all(sql, ids=list(agent_ids))


@row_parser
def _read_claim_history(row: Row) -> ClaimHistory:
    lease = row["what"] and Lease(row["what"], row["who"], row["epoch"], row["until"])
    return ClaimHistory(row["own"], row["last"], lease)


@row_parser
def _read_claim_state(row: Row) -> ClaimState:
    return ClaimState(row["name"], TaskStatus(row["status"]), row["who"])


@dataclass(frozen=True)
class ActiveTime:
    """An active task: since when it is, how long it was before, and what it may cost."""

    id: str
    since: int
    before_ms: int
    budget: Budget | None

    def measure(self, now: int) -> Cost:
        """Return the time that it was active until now."""
        return Cost(active_ms=self.before_ms + measure_duration(self.since, now))


class ActiveStore:
    """Reads active tasks: those that are claimed or running, even if their claim has expired."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def list_active(self, workflow_id: str) -> list[Task]:
        """Return the active tasks of a workflow in plan order."""
        sql = f"SELECT {COLUMNS} FROM plan_tasks WHERE id IN {_ACTIVE_IDS_SQL} ORDER BY sequence, position"
        rows = self._tx.fetch_all(sql, workflow_id=workflow_id, running=RUNNING)
        return [read_task(row) for row in rows]

    def count_active(self, workflow_id: str, *, excluding: str) -> int:
        """Count the active tasks other than this one."""
        sql = f"SELECT count(*) FROM plan_tasks WHERE id IN {_ACTIVE_IDS_SQL} AND id <> :beside"
        number: int = self._tx.fetch_value(sql, workflow_id=workflow_id, running=RUNNING, beside=excluding)
        return number

    def list_active_files(self, workflow_id: str, *, excluding: str) -> list[ActiveTask]:
        """Return the active tasks other than this one with their likely files, in plan order."""
        sql = (
            f"SELECT id, name, context FROM plan_tasks WHERE id IN {_ACTIVE_IDS_SQL} AND id <> :beside"
            " ORDER BY sequence, position"
        )
        rows = self._tx.fetch_all(sql, workflow_id=workflow_id, running=RUNNING, beside=excluding)
        return [_read_active_task(row) for row in rows]

    def find_active_with_paths(
        self, workflow_id: str, wanted: PathQuery, *, excluding: str
    ) -> tuple[list[ActiveTask], int]:
        """Return the active tasks that may change these paths, in plan order, and count all active ones.

        Tasks with globs or unusual paths are always among them: only `file_overlaps` can compare those.
        """
        prefixes = _pad(wanted.prefixes)
        row = self._tx.fetch_one(
            _build_path_sql(self._tx.json_texts, len(prefixes)),
            workflow_id=workflow_id,
            running=RUNNING,
            beside=excluding,
            names=_pad(wanted.names),
            **{f"prefix_{place}": prefix for place, prefix in enumerate(prefixes)},
        )
        ids, count = _read_ids_and_count(row or {})
        return self._list_files(ids) if ids else [], count

    def _list_files(self, ids: Sequence[str]) -> list[ActiveTask]:
        sql = "SELECT id, name, context FROM plan_tasks WHERE id IN :ids ORDER BY sequence, position"
        return [_read_active_task(row) for row in self._tx.fetch_all(sql, ids=ids)]

    # Active time, through an index that has only active tasks

    def list_of_plan(self, workflow_id: str) -> list[ActiveTime]:
        """Return the active tasks of a plan."""
        sql = f"{_SELECT_ACTIVE} AND workflow_id = :id"
        return [_read_active_time(row) for row in self._tx.fetch_all(sql, id=workflow_id)]

    def list_of_all_plans(self) -> list[ActiveTime]:
        """Return the active tasks of all plans."""
        return [_read_active_time(row) for row in self._tx.fetch_all(_SELECT_ACTIVE)]

    def count_unreviewed(self, workflow_id: str) -> int:
        """Count the tasks of a plan whose work is done and waits for a person."""
        sql = "SELECT count(*) FROM plan_tasks WHERE workflow_id = :id AND waits_for = 'approval'"
        number: int = self._tx.fetch_value(sql, id=workflow_id)
        return number

    def sum_active_time(self, workflow_id: str) -> int:
        """Add up how long the tasks of a plan were active, without the time that goes on."""
        sql = "SELECT coalesce(sum(active_ms), 0) FROM plan_tasks WHERE workflow_id = :id"
        return int(self._tx.fetch_value(sql, id=workflow_id))


# Work that is done and waits for a person is not active: its agent is free.
_ACTIVE_IDS_SQL = """
    (SELECT id FROM plan_tasks
      WHERE workflow_id = :workflow_id AND status IN :running AND waits_for IS NULL
      UNION
     SELECT id FROM plan_tasks WHERE workflow_id = :workflow_id AND claimed_by IS NOT NULL)
"""


_SELECT_ACTIVE = (
    "SELECT id, active_since, active_ms, requirements FROM plan_tasks WHERE active_since IS NOT NULL"
)


@row_parser
def _read_active_time(row: Row) -> ActiveTime:
    required = parse_task_requirements(row["requirements"])
    return ActiveTime(
        row["id"], row["active_since"], int(row["active_ms"]), required.budget if required else None
    )


@lru_cache
def _build_path_sql(clauses: JsonTexts, prefixes: int) -> str:
    """Build the query of `find_active_with_paths` for this number of prefixes."""
    files = clauses.texts.format(column="context", key="files_likely_affected")
    within = "".join(
        f" OR substr(value, 1, length(:prefix_{place})) = :prefix_{place}" for place in range(prefixes)
    )
    match = f"EXISTS (SELECT 1 FROM {files} WHERE {clauses.is_unusual_path} OR value IN :names{within})"
    return f"""
        SELECT count(*) AS count, {clauses.joined.format(text=f"CASE WHEN {match} THEN id END")} AS ids
          FROM plan_tasks WHERE id IN {_ACTIVE_IDS_SQL} AND id <> :beside
    """


def _pad(values: list[str]) -> list[str]:
    """Repeat the last value until their number is a power of two, so that there are few statements."""
    return values + values[-1:] * ((1 << (len(values) - 1).bit_length()) - len(values)) if values else values


@row_parser
def _read_ids_and_count(row: Row) -> tuple[list[str], int]:
    return (row["ids"] or "").split(), int(row["count"])


@row_parser
def _read_active_task(row: Row) -> ActiveTask:
    return ActiveTask(row["id"], row["name"], _parse_files(row["context"]))


@lru_cache(maxsize=4096)
def _parse_files(context: str) -> tuple[str, ...]:
    """Cached, because the context of an active task is read on every claim and seldom changes."""
    return parse_likely_files(json.loads(context))
