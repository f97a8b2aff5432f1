"""What is kept of tracked workflows, their phases and tasks."""

from __future__ import annotations

import json
from collections.abc import Sequence

from deepwork.database.engine import Row, stored
from deepwork.database.statements import where
from deepwork.database.transaction import Transaction
from deepwork.errors import NotFound
from deepwork.tracking.models import (
    CallerType,
    Ending,
    Phase,
    PhaseStatus,
    Profile,
    Tally,
    Task,
    TaskStatus,
    Total,
    Workflow,
    WorkflowStatus,
)


class TrackStore:
    """Tracked workflows, phases and tasks, as rows."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    # Workflows

    def add_workflow(self, workflow: Workflow) -> None:
        """Keep a new workflow."""
        self._tx.insert("tracked_workflows", _workflow_row(workflow))

    def workflow(self, id: str) -> Workflow:
        """The workflow with this id."""
        return self._one_workflow(id, "")

    def hold_workflow(self, id: str) -> Workflow:
        """The workflow with this id; nobody else changes it until we are done."""
        return self._one_workflow(id, self._tx.row_lock)

    def keep_workflow(self, before: Workflow, after: Workflow) -> None:
        """Keep what changed."""
        old, new = _workflow_row(before), _workflow_row(after)
        changes = {name: new[name] for name in new if new[name] != old[name]}
        self._tx.update("tracked_workflows", after.id, changes)

    def workflows(
        self, statuses: Sequence[WorkflowStatus] | None, limit: int, offset: int
    ) -> tuple[list[Workflow], int]:
        """Workflows, newest first, and how many there are in all."""
        conditions = where({f"{_SHOWN_STATUS} IN :statuses": statuses or None})
        rows = self._tx.all(
            f"SELECT {_WORKFLOW} FROM tracked_workflows {conditions}"
            " ORDER BY created_at DESC, created_seq DESC LIMIT :limit OFFSET :offset",
            statuses=statuses, limit=limit, offset=offset,
        )  # fmt: skip
        total: int = self._tx.value(f"SELECT count(*) FROM tracked_workflows {conditions}", statuses=statuses)
        return [_workflow(row) for row in rows], total

    # Phases

    def add_phase(self, phase: Phase) -> bool:
        """Keep a new phase; False if the workflow has one with its number."""
        row = dict(vars(phase))
        columns, values = ", ".join(row), ", ".join(f":{name}" for name in row)
        sql = f"INSERT INTO phases ({columns}) VALUES ({values}) ON CONFLICT (workflow_id, number) DO NOTHING"
        return self._tx.run(sql, **row) == 1

    def phase(self, id: str) -> Phase:
        """The phase with this id."""
        return self._one_phase(id, "")

    def hold_phase(self, id: str) -> Phase:
        """The phase with this id; nobody else changes it until we are done."""
        return self._one_phase(id, self._tx.row_lock)

    def phase_with_number(self, workflow_id: str, number: int) -> Phase | None:
        """The workflow's phase with this number."""
        row = self._tx.one(
            f"SELECT {_PHASE} FROM phases WHERE workflow_id = :id AND number = :number",
            id=workflow_id, number=number,
        )  # fmt: skip
        return _phase(row) if row else None

    def keep_phase(self, phase: Phase) -> None:
        """Keep how it ended."""
        self._tx.update(
            "phases", phase.id,
            {"status": phase.status, "summary": phase.summary, "completed_at": phase.completed_at},
        )  # fmt: skip

    def phases(self, workflow_id: str, number: int | None = None) -> list[Phase]:
        """The phases of a workflow by number, or the one with this number."""
        conditions = where({"workflow_id = :id": workflow_id, "number = :number": number})
        rows = self._tx.all(
            f"SELECT {_PHASE} FROM phases {conditions} ORDER BY number", id=workflow_id, number=number
        )
        return [_phase(row) for row in rows]

    # Tasks

    def add_task(self, task: Task) -> None:
        """Keep a new task."""
        self._tx.insert("tracked_tasks", _task_row(task))

    def task(self, id: str) -> Task:
        """The task with this id."""
        return self._one_task(id, "")

    def hold_task(self, id: str) -> Task:
        """The task with this id; nobody else changes it until we are done."""
        return self._one_task(id, self._tx.row_lock)

    def keep_task(self, before: Task, after: Task) -> None:
        """Keep what changed."""
        old, new = _task_row(before), _task_row(after)
        changes = {name: new[name] for name in new if new[name] != old[name]}
        self._tx.update("tracked_tasks", after.id, changes)

    def note_sign(self, task_id: str) -> None:
        """Somebody spoke of the task: it is not forgotten."""
        self._tx.update("tracked_tasks", task_id, {"last_sign_at": self._tx.now})

    def running_children(self, task_id: str) -> list[Task]:
        """The tasks right below this one that are under way."""
        rows = self._tx.all(
            f"SELECT {_TASK} FROM tracked_tasks WHERE parent_task_id = :id AND status = :status"
            " ORDER BY started_at, created_seq",
            id=task_id, status=TaskStatus.IN_PROGRESS,
        )  # fmt: skip
        return [_task(row) for row in rows]

    def depth(self, task_id: str) -> int:
        """How many levels the task is below the top; 1 for a task without a parent."""
        found: int = self._tx.value(
            """
            WITH RECURSIVE above (id, depth) AS (
                SELECT parent_task_id, 1 FROM tracked_tasks WHERE id = :id
                 UNION ALL
                SELECT task.parent_task_id, above.depth + 1
                  FROM tracked_tasks AS task JOIN above ON task.id = above.id
            )
            SELECT max(depth) FROM above
            """,
            id=task_id,
        )  # fmt: skip
        return found

    def running_roots(self, phase_id: str) -> int:
        """How many tasks of the phase run that stand below no other."""
        found: int = self._tx.value(
            "SELECT count(*) FROM tracked_tasks"
            " WHERE phase_id = :id AND status = :status AND parent_task_id IS NULL",
            id=phase_id, status=TaskStatus.IN_PROGRESS,
        )  # fmt: skip
        return found

    def tallies(self, phase_ids: Sequence[str]) -> dict[str, Tally]:
        """How many tasks of each of these phases are how far."""
        rows = self._tx.all(
            """
            SELECT phase_id, status, count(*) AS tasks, coalesce(sum(completed_at - started_at), 0) AS ms
              FROM tracked_tasks WHERE phase_id IN :ids GROUP BY phase_id, status
            """,
            ids=list(phase_ids),
        )  # fmt: skip
        found: dict[str, dict[str, int]] = {}
        for row in rows:
            counts = found.setdefault(row["phase_id"], {"total": 0, "task_ms": 0})
            counts[row["status"]] = row["tasks"]
            counts["total"] += row["tasks"]
            counts["task_ms"] += int(row["ms"])
        return {id: Tally(**counts) for id, counts in found.items()}

    def total(self, workflow_id: str) -> Total:
        """What the tasks of a workflow come to."""
        row = self._tx.one(
            """
            SELECT count(*) AS tasks, count(*) - count(completed_at) AS running,
                   coalesce(sum(completed_at - started_at), 0) AS task_ms, coalesce(sum(tokens), 0) AS tokens
              FROM tracked_tasks WHERE workflow_id = :id
            """,
            id=workflow_id,
        )  # fmt: skip
        return Total(**{name: int(value) for name, value in (row or {}).items()})

    def tasks(
        self, workflow_id: str, *, phase_id: str | None, agent: str | None, since: int | None,
        after: tuple[int, int] | None, limit: int,
    ) -> tuple[list[Task], int]:  # fmt: skip
        """Tasks in the order they were started, and how many match in all.

        `since`: those that were started, completed or spoken of since then. `after`: the time and the
        number in the order of creation of the last one that was seen.
        """
        filters = where(
            {
                "workflow_id = :workflow_id": workflow_id,
                "phase_id = :phase_id": phase_id,
                "agent_name = :agent": agent,
                "last_sign_at >= :since": since,
            }
        )
        values = {"workflow_id": workflow_id, "phase_id": phase_id, "agent": agent, "since": since}
        total: int = self._tx.value(f"SELECT count(*) FROM tracked_tasks {filters}", **values)
        if after is not None:
            filters += " AND (started_at, created_seq) > (:at, :seq)"
            values |= {"at": after[0], "seq": after[1]}
        rows = self._tx.all(
            f"SELECT {_TASK} FROM tracked_tasks {filters} ORDER BY started_at, created_seq LIMIT :limit",
            limit=limit, **values,
        )  # fmt: skip
        return [_task(row) for row in rows], total

    def created_seq(self, task_id: str) -> int:
        """The place of a task in the order of creation."""
        found: int = self._tx.value("SELECT created_seq FROM tracked_tasks WHERE id = :id", id=task_id)
        return found

    def _one_workflow(self, id: str, lock: str) -> Workflow:
        row = self._tx.one(f"SELECT {_WORKFLOW} FROM tracked_workflows WHERE id = :id{lock}", id=id)
        if row is None:
            raise NotFound("workflow", id, suggestion="Give the workflow_id that start_workflow answered.")
        return _workflow(row)

    def _one_phase(self, id: str, lock: str) -> Phase:
        row = self._tx.one(f"SELECT {_PHASE} FROM phases WHERE id = :id{lock}", id=id)
        if row is None:
            raise NotFound("phase", id, suggestion="Give the phase_id that start_phase answered.")
        return _phase(row)

    def _one_task(self, id: str, lock: str) -> Task:
        row = self._tx.one(f"SELECT {_TASK} FROM tracked_tasks WHERE id = :id{lock}", id=id)
        if row is None:
            raise NotFound("task", id, suggestion="Give the task_id that start_task answered.")
        return _task(row)


_SHOWN_STATUS = """CASE WHEN status = 'in_progress' AND EXISTS (
    SELECT 1 FROM issues WHERE issues.workflow_id = tracked_workflows.id
       AND requires_human_review AND resolved_at IS NULL) THEN 'blocked' ELSE status END"""
_WORKFLOW = ", ".join(Workflow.__dataclass_fields__)
_PHASE = ", ".join(Phase.__dataclass_fields__)
_TASK = ", ".join(Task.__dataclass_fields__)


def _workflow_row(workflow: Workflow) -> Row:
    lists = {name: json.dumps(getattr(workflow, name)) for name in ("achievements", "limitations")}
    return vars(workflow) | lists


def _task_row(task: Task) -> Row:
    objects = ("areas", "outcome", "metadata", "result")
    return vars(task) | {name: json.dumps(getattr(task, name), ensure_ascii=False) for name in objects}


@stored
def _workflow(row: Row) -> Workflow:
    read = {
        "profile": Profile(row["profile"]),
        "status": WorkflowStatus(row["status"]),
        "outcome": Ending(row["outcome"]) if row["outcome"] else None,
        "achievements": tuple(json.loads(row["achievements"])),
        "limitations": tuple(json.loads(row["limitations"])),
    }
    return Workflow(**(row | read))


@stored
def _phase(row: Row) -> Phase:
    return Phase(**(row | {"status": PhaseStatus(row["status"]), "is_parallel": bool(row["is_parallel"])}))


@stored
def _task(row: Row) -> Task:
    read = {
        "status": TaskStatus(row["status"]),
        "caller_type": CallerType(row["caller_type"]),
        "areas": tuple(json.loads(row["areas"])),
        "outcome": json.loads(row["outcome"]),
        "metadata": json.loads(row["metadata"]),
        "result": json.loads(row["result"]),
    }
    return Task(**(row | read))
