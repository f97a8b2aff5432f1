"""Runs of all three kinds as rows: tracked workflows, plans, job sessions."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deepwork.database.engine import Row
from deepwork.database.statements import where
from deepwork.database.transaction import Transaction

TRACK, PLAN, JOB = "track", "plan", "job"
KINDS = (TRACK, PLAN, JOB)

UNDER_WAY: Mapping[str, tuple[str, ...]] = {
    TRACK: ("in_progress", "blocked"),
    PLAN: ("planning", "ready", "in_progress", "paused"),
    JOB: ("active",),
}
OVER: Mapping[str, tuple[str, ...]] = {
    TRACK: ("completed", "failed"),
    PLAN: ("completed", "failed", "abandoned"),
    JOB: ("completed", "aborted"),
}
PLAN_OPEN = ("pending", "failed", "planning", "in_progress", "paused")


@dataclass(frozen=True)
class RunFilter:
    """Which runs of one kind are wanted; None asks for all."""

    statuses: tuple[str, ...] | None = None
    words: str | None = None
    agent: str | None = None
    since: Any = None
    until: Any = None
    profile: str | None = None


@dataclass(frozen=True)
class RunOrder:
    """In which order, and after which run; a kind is sorted by a column of its own."""

    by: str = "updated"
    descending: bool = True


class RunStore:
    """Runs, as rows that look alike whatever their kind."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def page(
        self, kind: str, wanted: RunFilter, order: RunOrder, after: Sequence[Any] | None, limit: int
    ) -> list[Row]:
        """The next runs of a kind; `sort_key` and `created_seq` tell where each stands."""
        leg = _LEGS[kind]
        key, direction = leg.keys[order.by], "DESC" if order.descending else "ASC"
        is_beyond = f"({key}, created_seq) {'<' if order.descending else '>'} (:after_key, :after_seq)"
        conditions = where({**leg.conditions(wanted), is_beyond: after})
        after_key, after_seq = after or (None, None)
        return self._tx.all(
            f"SELECT {leg.columns}, created_seq, {key} AS sort_key FROM {leg.table} {conditions}"
            f" ORDER BY {key} {direction}, created_seq {direction} LIMIT :limit",
            limit=limit, after_key=after_key, after_seq=after_seq, **_values(wanted),
        )  # fmt: skip

    def count(self, kind: str, wanted: RunFilter) -> int:
        """How many runs of a kind match."""
        leg = _LEGS[kind]
        conditions = where(leg.conditions(wanted))
        found: int = self._tx.value(f"SELECT count(*) FROM {leg.table} {conditions}", **_values(wanted))
        return found

    def one(self, kind: str, id: str) -> Row | None:
        """The run with this id."""
        leg = _LEGS[kind]
        return self._tx.one(f"SELECT {leg.columns} FROM {leg.table} WHERE id = :id", id=id)

    def by_status(self, kind: str) -> dict[str, int]:
        """How many runs of a kind have which status, as it is stored."""
        rows = self._tx.all(f"SELECT status, count(*) AS runs FROM {_LEGS[kind].table} GROUP BY status")
        return {row["status"]: row["runs"] for row in rows}

    def blocked_count(self) -> int:
        """How many tracked workflows under way wait for a person."""
        found: int = self._tx.value(
            """
            SELECT count(DISTINCT issues.workflow_id) FROM issues
              JOIN tracked_workflows ON tracked_workflows.id = issues.workflow_id
             WHERE requires_human_review AND resolved_at IS NULL AND status = 'in_progress'
            """
        )
        return found

    def names(self, ids: Sequence[str]) -> dict[str, tuple[str, str]]:
        """Kind and name of each of these runs, in a statement for each kind."""
        found: dict[str, tuple[str, str]] = {}
        for kind, its in by_kind(ids).items():
            leg = _LEGS[kind]
            rows = self._tx.all(f"SELECT id, {leg.name} AS name FROM {leg.table} WHERE id IN :ids", ids=its)
            found |= {row["id"]: (kind, row["name"]) for row in rows}
        return found

    # What their tasks come to, for many runs at once

    def tracked_counts(self, ids: Sequence[str]) -> list[Row]:
        """How many tasks of each workflow have which status and agent, and the tokens they used."""
        return self._tx.all(
            """
            SELECT workflow_id, status, agent_name, count(*) AS tasks, coalesce(sum(tokens), 0) AS tokens
              FROM tracked_tasks WHERE workflow_id IN :ids GROUP BY workflow_id, status, agent_name
            """,
            ids=list(ids),
        )

    def planned_counts(self, ids: Sequence[str]) -> list[Row]:
        """How many tasks of each plan have which status."""
        return self._tx.all(
            "SELECT workflow_id, status, count(*) AS tasks FROM plan_tasks"
            " WHERE workflow_id IN :ids GROUP BY workflow_id, status",
            ids=list(ids),
        )

    def planned_levels(self, ids: Sequence[str]) -> dict[str, tuple[int, int]]:
        """At which of its levels each plan is, and how many it has."""
        rows = self._tx.all(
            """
            SELECT task.workflow_id, count(DISTINCT task.sequence) AS levels,
                   count(DISTINCT CASE WHEN task.sequence <= coalesce(at.lowest, task.sequence)
                                       THEN task.sequence END) AS level
              FROM plan_tasks AS task
              LEFT JOIN (SELECT workflow_id, min(sequence) AS lowest FROM plan_tasks
                          WHERE workflow_id IN :ids AND status IN :open GROUP BY workflow_id) AS at
                ON at.workflow_id = task.workflow_id
             WHERE task.workflow_id IN :ids GROUP BY task.workflow_id
            """,
            ids=list(ids), open=PLAN_OPEN,
        )  # fmt: skip
        return {row["workflow_id"]: (row["level"], row["levels"]) for row in rows}

    def plan_holders(self, ids: Sequence[str]) -> list[Row]:
        """Who has tasks of these plans."""
        return self._tx.all(
            """
            SELECT DISTINCT task.workflow_id, agents.name FROM plan_tasks AS task
              JOIN agents ON agents.id = task.claimed_by
             WHERE task.workflow_id IN :ids AND task.claimed_by IS NOT NULL ORDER BY agents.name
            """,
            ids=list(ids),
        )

    def files(self, ids: Sequence[str]) -> dict[str, int]:
        """How many files each run changed."""
        rows = self._tx.all(
            "SELECT workflow_id, count(*) AS files FROM (SELECT DISTINCT workflow_id, path FROM changed_files"
            " WHERE workflow_id IN :ids) AS found GROUP BY workflow_id",
            ids=list(ids),
        )
        return {row["workflow_id"]: row["files"] for row in rows}

    def last_milestones(self, ids: Sequence[str]) -> dict[str, str]:
        """What was last said of each run's progress."""
        rows = self._tx.all(
            " UNION ALL ".join(
                f"""
                SELECT id, (SELECT message FROM milestones WHERE workflow_id = {leg.table}.id
                             ORDER BY created_at DESC, created_seq DESC LIMIT 1) AS message
                  FROM {leg.table} WHERE id IN :ids
                """
                for leg in _LEGS.values()
            ),
            ids=list(ids),
        )
        return {row["id"]: row["message"] for row in rows if row["message"]}

    def plan_changes(self, id: str, limit: int) -> list[Row]:
        """What became of a plan, newest first; what its tasks go through every day is left out."""
        return self._tx.all(
            "SELECT at, what, task_id, before, after, reason, by_whom FROM plan_history"
            " WHERE workflow_id = :id AND what NOT IN ('claimed', 'released', 'updated')"
            " ORDER BY number DESC LIMIT :limit",
            id=id, limit=limit,
        )  # fmt: skip

    def active_sessions(self, limit: int) -> list[Row]:
        """Job sessions under way, the last changed first."""
        return self._tx.all(
            f"SELECT {_LEGS[JOB].columns}, created_seq FROM job_sessions WHERE status = 'active'"
            " ORDER BY updated_at DESC, created_seq DESC LIMIT :limit",
            limit=limit,
        )


def kind_of(id: str) -> str:
    """What kind of run has such an id."""
    return TRACK if id.startswith("tw_") else PLAN if id.startswith("wf_") else JOB


def by_kind(ids: Sequence[str]) -> dict[str, list[str]]:
    """These ids, apart by kind."""
    found: dict[str, list[str]] = {}
    for id in dict.fromkeys(ids):
        found.setdefault(kind_of(id), []).append(id)
    return found


@dataclass(frozen=True)
class _Leg:
    """How one kind of run is read."""

    table: str
    columns: str
    name: str
    keys: Mapping[str, str]
    status: str
    words: str
    agent: str
    started: str

    def conditions(self, wanted: RunFilter) -> dict[str, Any]:
        shown = _needs_a_look(wanted.statuses)
        return {
            "status IN :stored": wanted.statuses,
            f"{self.status} IN :statuses": wanted.statuses if shown else None,
            self.words: wanted.words,
            self.agent: wanted.agent,
            "profile = :profile": wanted.profile,
            f"{self.started} >= :since": wanted.since,
            f"{self.started} < :until": wanted.until,
        }


def _needs_a_look(statuses: Sequence[str] | None) -> bool:
    """Whether it matters that a run is blocked: where either is wanted, what is stored says enough."""
    return bool(statuses) and ("blocked" in (statuses or ())) != ("in_progress" in (statuses or ()))


def _stored(statuses: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """The statuses as they are stored: whoever is blocked is under way."""
    return statuses and tuple({"blocked": "in_progress"}.get(word, word) for word in statuses)


def _values(wanted: RunFilter) -> dict[str, Any]:
    text = (wanted.words or "").lower()
    in_json = json.dumps(text)[1:-1]
    goal = f'%"goal": "{containing(in_json)}", "entries":%'
    found = {"words": containing(text), "words_in_goal": goal, "stored": _stored(wanted.statuses)}
    return {**vars(wanted), **found}


def containing(text: str) -> str:
    """The pattern of every text with this one in it; `!` takes the meaning from what stands after it."""
    return "%" + re.sub(r"([!%_])", r"!\1", text) + "%"


_OBJECTIVE = 300

_LEGS: Mapping[str, _Leg] = {
    TRACK: _Leg(
        table="tracked_workflows",
        columns=f"""id, 'track' AS kind, name, substr(objective, 1, {_OBJECTIVE + 1}) AS objective, status,
            profile, current_phase, total_phases, created_at AS started_at, completed_at AS ended_at,
            updated_at""",
        name="name",
        keys={"started": "created_at", "updated": "updated_at", "name": "lower(name)"},
        status="""CASE WHEN status = 'in_progress' AND EXISTS (
            SELECT 1 FROM issues WHERE issues.workflow_id = tracked_workflows.id
               AND requires_human_review AND resolved_at IS NULL) THEN 'blocked' ELSE status END""",
        words="(lower(name) LIKE :words ESCAPE '!' OR lower(objective) LIKE :words ESCAPE '!'"
        " OR id LIKE :words ESCAPE '!')",
        agent="EXISTS (SELECT 1 FROM tracked_tasks AS task WHERE task.workflow_id = tracked_workflows.id"
        " AND task.agent_name = :agent)",
        started="created_at",
    ),
    PLAN: _Leg(
        table="plans",
        columns=f"""id, 'plan' AS kind, name, substr(source_content, 1, {_OBJECTIVE + 1}) AS objective,
            status, created_at AS started_at, updated_at,
            CASE WHEN status IN ('completed', 'failed', 'abandoned') THEN updated_at END AS ended_at""",
        name="name",
        keys={"started": "created_at", "updated": "updated_at", "name": "lower(name)"},
        status="status",
        words="(lower(name) LIKE :words ESCAPE '!' OR lower(source_content) LIKE :words ESCAPE '!'"
        " OR id LIKE :words ESCAPE '!')",
        agent="""EXISTS (
            SELECT 1 FROM plan_tasks AS task JOIN plan_claims AS claim ON claim.task_id = task.id
              JOIN agents ON agents.id = claim.agent_id
             WHERE task.workflow_id = plans.id AND agents.name = :agent)""",
        started="created_at",
    ),
    JOB: _Leg(
        table="job_sessions",
        columns="id, 'job' AS kind, job_name || '/' || workflow_name AS name, status, step_id, started_at,"
        " updated_at, data",
        name="job_name || '/' || workflow_name",
        keys={
            "started": "started_at",
            "updated": "updated_at",
            "name": "lower(job_name || '/' || workflow_name)",
        },
        status="status",
        # What a session is for stands between its `goal` and its `entries`; other texts of it do not count.
        words="(lower(job_name || '/' || workflow_name) LIKE :words ESCAPE '!' OR id LIKE :words ESCAPE '!'"
        " OR lower(data) LIKE :words_in_goal ESCAPE '!')",
        agent="1 = 0",  # nobody is known to do a step
        started="started_at",
    ),
}
