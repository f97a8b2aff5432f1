"""Storage of tracked workflows, their phases and tasks."""

from __future__ import annotations

import json
from collections.abc import Sequence

from deepwork.kernel.database.engine import Row, build_where, row_parser
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.errors import NotFound
from deepwork.work.plans.models import parse_task_requirements, serialize_requirements
from deepwork.work.tracking.models import (
    CallerType,
    Phase,
    PhaseStatus,
    TaskCounts,
    TrackedTask,
    TrackedTaskStatus,
    TrackedWorkflow,
    TrackedWorkflowStatus,
    TrackSize,
    WorkflowEnding,
    WorkflowTotals,
)


class TrackStore:
    """Reads and writes tracked workflows, phases and tasks."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    # Workflows

    def add_workflow(self, workflow: TrackedWorkflow) -> None:
        """Insert a new workflow."""
        self._tx.insert("tracked_workflows", _workflow_to_row(workflow))

    def get_workflow(self, id: str) -> TrackedWorkflow:
        """Return the workflow; NotFound if there is none."""
        return self._select_workflow(id, "")

    def get_workflow_for_update(self, id: str) -> TrackedWorkflow:
        """Return the workflow and lock its row until the transaction ends."""
        return self._select_workflow(id, self._tx.row_lock)

    def save_workflow(self, before: TrackedWorkflow, after: TrackedWorkflow) -> None:
        """Save the columns that changed."""
        self._tx.save_change("tracked_workflows", _workflow_to_row(before), _workflow_to_row(after))

    def list_workflows(
        self, statuses: Sequence[TrackedWorkflowStatus] | None, limit: int, offset: int
    ) -> tuple[list[TrackedWorkflow], int]:
        """Return a page of workflows, newest first, and their total number."""
        conditions = build_where({f"{_VISIBLE_STATUS_SQL} IN :statuses": statuses or None})
        found, order = f"tracked_workflows {conditions}", "created_at DESC, created_seq DESC"
        rows, total = self._tx.list_first(
            _WORKFLOW_COLUMNS, found, order, limit, offset=offset, statuses=statuses
        )
        return [_workflow_from_row(row) for row in rows], total

    # Phases

    def add_phase(self, phase: Phase) -> bool:
        """Insert a new phase; False if the workflow has one with its number."""
        return self._tx.insert_new("phases", vars(phase))

    def get_phase(self, id: str) -> Phase:
        """Return the phase; NotFound if there is none."""
        return self._select_phase(id, "")

    def get_phase_for_update(self, id: str) -> Phase:
        """Return the phase and lock its row until the transaction ends."""
        return self._select_phase(id, self._tx.row_lock)

    def find_phase(self, workflow_id: str, number: int) -> Phase | None:
        """Return the workflow's phase with this number, or None."""
        sql = f"SELECT {_PHASE_COLUMNS} FROM phases WHERE workflow_id = :id AND number = :number"
        row = self._tx.fetch_one(sql, id=workflow_id, number=number)
        return _phase_from_row(row) if row else None

    def save_phase(self, phase: Phase) -> None:
        """Save how the phase ended."""
        self._tx.update(
            "phases",
            phase.id,
            {"status": phase.status, "summary": phase.summary, "completed_at": phase.completed_at},
        )

    def list_phases(self, workflow_id: str, number: int | None = None) -> list[Phase]:
        """Return the phases of a workflow sorted by number, or only the one with this number."""
        conditions = build_where({"workflow_id = :id": workflow_id, "number = :number": number})
        sql = f"SELECT {_PHASE_COLUMNS} FROM phases {conditions} ORDER BY number"
        rows = self._tx.fetch_all(sql, id=workflow_id, number=number)
        return [_phase_from_row(row) for row in rows]

    # Tasks

    def add_task(self, task: TrackedTask) -> None:
        """Insert a new task."""
        self._tx.insert("tracked_tasks", _task_to_row(task))

    def get_task(self, id: str) -> TrackedTask:
        """Return the task; NotFound if there is none."""
        return self._select_task(id, "")

    def get_task_for_update(self, id: str) -> TrackedTask:
        """Return the task and lock its row until the transaction ends."""
        return self._select_task(id, self._tx.row_lock)

    def save_task(self, before: TrackedTask, after: TrackedTask) -> None:
        """Save the columns that changed."""
        self._tx.save_change("tracked_tasks", _task_to_row(before), _task_to_row(after))

    def touch_task(self, task_id: str) -> None:
        """Record activity on the task, so that it does not count as stale."""
        self._tx.update("tracked_tasks", task_id, {"last_sign_at": self._tx.now})

    def list_running_children(self, task_id: str) -> list[TrackedTask]:
        """Return the running direct subtasks."""
        sql = (
            f"SELECT {_TASK_COLUMNS} FROM tracked_tasks WHERE parent_task_id = :id AND status = :status"
            " ORDER BY started_at, created_seq"
        )
        rows = self._tx.fetch_all(sql, id=task_id, status=TrackedTaskStatus.IN_PROGRESS)
        return [_task_from_row(row) for row in rows]

    def get_depth(self, task_id: str) -> int:
        """Return the nesting depth of the task; 1 for a task without a parent."""
        sql = """
            WITH RECURSIVE above (id, depth) AS (
                SELECT parent_task_id, 1 FROM tracked_tasks WHERE id = :id
                 UNION ALL
                SELECT task.parent_task_id, above.depth + 1
                  FROM tracked_tasks AS task JOIN above ON task.id = above.id
            )
            SELECT max(depth) FROM above
        """
        found: int = self._tx.fetch_value(sql, id=task_id)
        return found

    def count_running_roots(self, phase_id: str) -> int:
        """Count the running tasks of the phase that have no parent."""
        sql = (
            "SELECT count(*) FROM tracked_tasks"
            " WHERE phase_id = :id AND status = :status AND parent_task_id IS NULL"
        )
        found: int = self._tx.fetch_value(sql, id=phase_id, status=TrackedTaskStatus.IN_PROGRESS)
        return found

    def count_tasks_by_phase(self, phase_ids: Sequence[str]) -> dict[str, TaskCounts]:
        """Count the tasks of each phase by status."""
        sql = f"""
            SELECT phase_id, status, count(*) AS tasks, coalesce(sum({_DURATION_SQL}), 0) AS ms
              FROM tracked_tasks WHERE phase_id IN :ids GROUP BY phase_id, status
        """
        rows = self._tx.fetch_all(sql, ids=list(phase_ids))
        found: dict[str, dict[str, int]] = {}
        for row in rows:
            counts = found.setdefault(row["phase_id"], {"total": 0, "task_ms": 0})
            counts[row["status"]] = row["tasks"]
            counts["total"] += row["tasks"]
            counts["task_ms"] += int(row["ms"])
        return {id: TaskCounts(**counts) for id, counts in found.items()}

    def sum_tasks(self, workflow_id: str) -> WorkflowTotals:
        """Sum up the tasks of a workflow."""
        sql = f"""
            SELECT count(*) AS tasks, count(*) - count(completed_at) AS running,
                   coalesce(sum({_DURATION_SQL}), 0) AS task_ms, coalesce(sum(tokens), 0) AS tokens
              FROM tracked_tasks WHERE workflow_id = :id
        """
        row = self._tx.fetch_one(sql, id=workflow_id)
        return WorkflowTotals(**{name: int(value) for name, value in (row or {}).items()})

    def list_tasks(
        self,
        workflow_id: str,
        *,
        phase_id: str | None,
        agent: str | None,
        since: int | None,
        after: tuple[int, int] | None,
        limit: int,
    ) -> tuple[list[TrackedTask], int]:
        """Return tasks in the order they were started, and the total number of matches.

        `since`: only tasks with activity since then. `after`: start time and creation sequence of the last
        task of the previous page.
        """
        filters = build_where(
            {
                "workflow_id = :workflow_id": workflow_id,
                "phase_id = :phase_id": phase_id,
                "agent_name = :agent": agent,
                "last_sign_at >= :since": since,
            }
        )
        values = {"workflow_id": workflow_id, "phase_id": phase_id, "agent": agent, "since": since}
        total: int = self._tx.fetch_value(f"SELECT count(*) FROM tracked_tasks {filters}", **values)
        if after is not None:
            filters += " AND (started_at, created_seq) > (:at, :seq)"
            values |= {"at": after[0], "seq": after[1]}
        sql = (
            f"SELECT {_TASK_COLUMNS} FROM tracked_tasks {filters}"
            " ORDER BY started_at, created_seq LIMIT :limit"
        )
        rows = self._tx.fetch_all(sql, limit=limit, **values)
        return [_task_from_row(row) for row in rows], total

    def get_created_seq(self, task_id: str) -> int:
        """Return the creation sequence of a task."""
        found: int = self._tx.fetch_value("SELECT created_seq FROM tracked_tasks WHERE id = :id", id=task_id)
        return found

    def list_ancestors(self, task_id: str) -> list[Row]:
        """List the ancestors of a tracked task, topmost first."""
        sql = """
            WITH RECURSIVE above (id, name, parent_task_id, distance) AS (
                SELECT id, name, parent_task_id, 0 FROM tracked_tasks WHERE id = :id
                 UNION ALL
                SELECT task.id, task.name, task.parent_task_id, above.distance + 1
                  FROM tracked_tasks AS task JOIN above ON task.id = above.parent_task_id
            )
            SELECT id, name FROM above WHERE distance > 0 ORDER BY distance DESC
        """
        return self._tx.fetch_all(sql, id=task_id)

    def list_children(self, task_id: str, limit: int) -> list[Row]:
        """List the direct children of a tracked task."""
        sql = (
            "SELECT id, name, status FROM tracked_tasks WHERE parent_task_id = :id"
            " ORDER BY started_at, created_seq LIMIT :limit"
        )
        return self._tx.fetch_all(sql, id=task_id, limit=limit)

    def list_tracked_agents(self, limit: int) -> list[Row]:
        """List the agents named by tasks of active tracked workflows; these are known only by name."""
        sql = """
            SELECT task.agent_name, sum(CASE WHEN task.status = 'in_progress' THEN 1 ELSE 0 END) AS running,
                   sum(CASE WHEN task.status = 'failed' THEN 1 ELSE 0 END) AS failed, count(*) AS tasks,
                   sum(task.tokens) AS tokens, max(task.last_sign_at) AS last_sign_at
              FROM tracked_workflows AS run JOIN tracked_tasks AS task ON task.workflow_id = run.id
             WHERE run.status = 'in_progress' AND task.agent_name IS NOT NULL
             GROUP BY task.agent_name ORDER BY max(task.last_sign_at) DESC, task.agent_name LIMIT :limit
        """
        return self._tx.fetch_all(sql, limit=limit)

    def list_running_tasks_of(self, names: Sequence[str], limit: int) -> list[Row]:
        """List the running tracked tasks of these agents, newest first."""
        sql = """
            SELECT task.agent_name, task.id, task.name, task.workflow_id, task.started_at, task.areas,
                   run.name AS run_name
              FROM tracked_workflows AS run JOIN tracked_tasks AS task ON task.workflow_id = run.id
             WHERE run.status = 'in_progress' AND task.status = 'in_progress' AND task.agent_name IN :names
             ORDER BY task.started_at DESC, task.created_seq DESC LIMIT :limit
        """
        return self._tx.fetch_all(sql, names=list(names), limit=limit)

    def _select_workflow(self, id: str, lock: str) -> TrackedWorkflow:
        sql = f"SELECT {_WORKFLOW_COLUMNS} FROM tracked_workflows WHERE id = :id{lock}"
        row = self._tx.fetch_one(sql, id=id)
        if row is None:
            raise NotFound(
                "workflow", id, suggestion="Pass the workflow_id that {tool:start_workflow} returned."
            )
        return _workflow_from_row(row)

    def _select_phase(self, id: str, lock: str) -> Phase:
        row = self._tx.fetch_one(f"SELECT {_PHASE_COLUMNS} FROM phases WHERE id = :id{lock}", id=id)
        if row is None:
            raise NotFound("phase", id, suggestion="Pass the phase_id that {tool:start_phase} returned.")
        return _phase_from_row(row)

    def _select_task(self, id: str, lock: str) -> TrackedTask:
        row = self._tx.fetch_one(f"SELECT {_TASK_COLUMNS} FROM tracked_tasks WHERE id = :id{lock}", id=id)
        if row is None:
            raise NotFound("task", id, suggestion="Pass the task_id that {tool:start_task} returned.")
        return _task_from_row(row)


_VISIBLE_STATUS_SQL = """CASE WHEN status = 'in_progress' AND EXISTS (
    SELECT 1 FROM issues WHERE issues.workflow_id = tracked_workflows.id
       AND requires_human_review AND resolved_at IS NULL) THEN 'blocked' ELSE status END"""
_WORKFLOW_COLUMNS = ", ".join(TrackedWorkflow.__dataclass_fields__)
_PHASE_COLUMNS = ", ".join(Phase.__dataclass_fields__)
_TASK_COLUMNS = ", ".join(TrackedTask.__dataclass_fields__)


def _workflow_to_row(workflow: TrackedWorkflow) -> Row:
    lists = {name: json.dumps(getattr(workflow, name)) for name in ("achievements", "limitations")}
    return vars(workflow) | lists | {"requirements": serialize_requirements(workflow.requirements)}


def _task_to_row(task: TrackedTask) -> Row:
    objects = ("areas", "outcome", "metadata", "result")
    texts = {name: json.dumps(getattr(task, name), ensure_ascii=False) for name in objects}
    return vars(task) | texts | {"manual_review_needed": task.manual_review_needed}


# Not below zero: the clock may have been set back while the task ran.
_DURATION_SQL = "CASE WHEN completed_at > started_at THEN completed_at - started_at ELSE 0 END"


@row_parser
def _workflow_from_row(row: Row) -> TrackedWorkflow:
    read = {
        "profile": TrackSize(row["profile"]),
        "status": TrackedWorkflowStatus(row["status"]),
        "outcome": WorkflowEnding(row["outcome"]) if row["outcome"] else None,
        "achievements": tuple(json.loads(row["achievements"])),
        "limitations": tuple(json.loads(row["limitations"])),
        "requirements": parse_task_requirements(row["requirements"]),
    }
    return TrackedWorkflow(**(row | read))


@row_parser
def _phase_from_row(row: Row) -> Phase:
    return Phase(**(row | {"status": PhaseStatus(row["status"]), "is_parallel": bool(row["is_parallel"])}))


@row_parser
def _task_from_row(row: Row) -> TrackedTask:
    read = {
        "status": TrackedTaskStatus(row["status"]),
        "caller_type": CallerType(row["caller_type"]),
        "areas": tuple(json.loads(row["areas"])),
        "outcome": json.loads(row["outcome"]),
        "metadata": json.loads(row["metadata"]),
        "result": json.loads(row["result"]),
    }
    return TrackedTask(**(row | read))
