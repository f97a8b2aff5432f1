"""Storage of repositories and workspaces."""

from __future__ import annotations

import json
from collections.abc import Sequence

from deepwork.kernel.database.engine import Row, build_where, row_parser
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.errors import NotFound
from deepwork.kernel.values import new_id
from deepwork.work.workspaces.models import CheckoutWork, FinishedTask, Repository, Workspace, WorkspaceStatus


class RepositoryStore:
    """Reads and writes repositories."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def add(self, host: str, path: str, name: str) -> bool:
        """Insert a repository; False if it exists already."""
        times = {"created_at": self._tx.now, "updated_at": self._tx.now}
        row = {"id": new_id("rp"), "host": host, "path": path, "name": name, **times}
        return self._tx.insert_new("repositories", row)

    def find(self, host: str, path: str) -> Repository | None:
        """Return the repository at this path of this machine."""
        sql = f"SELECT {_REPOSITORY_COLUMNS} FROM repositories WHERE host = :host AND path = :path"
        row = self._tx.fetch_one(sql, host=host, path=path)
        return _repository_from_row(row) if row else None

    def find_by_id(self, id: str) -> Repository | None:
        """Return the repository with this id."""
        row = self._tx.fetch_one(f"SELECT {_REPOSITORY_COLUMNS} FROM repositories WHERE id = :id", id=id)
        return _repository_from_row(row) if row else None

    def rename(self, repository: Repository, name: str) -> None:
        """Change the repository's name."""
        self._tx.update("repositories", repository.id, {"name": name, "updated_at": self._tx.now})

    def list_newest(self, limit: int, offset: int) -> tuple[list[Repository], int]:
        """Return a page of repositories, newest first, and their total number."""
        order = "created_at DESC, created_seq DESC"
        rows, total = self._tx.list_first(_REPOSITORY_COLUMNS, "repositories", order, limit, offset=offset)
        return [_repository_from_row(row) for row in rows], total


class WorkspaceStore:
    """Reads and writes workspaces."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def add(self, workspace: Workspace) -> bool:
        """Insert a new workspace; False if an active one has the same tree or branch."""
        return self._tx.insert_new("workspaces", _to_row(workspace))

    def get(self, id: str) -> Workspace:
        """Return the workspace; NotFound if there is none."""
        return self._select(id, "")

    def get_for_update(self, id: str) -> Workspace:
        """Return the workspace and lock its row until the transaction ends."""
        return self._select(id, self._tx.row_lock)

    def find(self, id: str) -> Workspace | None:
        """Return the workspace, or None."""
        row = self._tx.fetch_one(f"SELECT {_WORKSPACE_COLUMNS} FROM workspaces WHERE id = :id", id=id)
        return _workspace_from_row(row) if row else None

    def find_by_ids(self, ids: Sequence[str]) -> dict[str, Workspace]:
        """Return these workspaces, by id; ids that do not exist are left out."""
        sql = f"SELECT {_WORKSPACE_COLUMNS} FROM workspaces WHERE id IN :ids"
        rows = self._tx.fetch_all(sql, ids=list(ids)) if ids else []
        return {row["id"]: _workspace_from_row(row) for row in rows}

    def find_active(self, id: str | None) -> Workspace | None:
        """Return the workspace if it is active."""
        found = self.find(id) if id else None
        return found if found and found.status is WorkspaceStatus.ACTIVE else None

    def save(self, before: Workspace, after: Workspace) -> None:
        """Update the columns that changed."""
        self._tx.save_change("workspaces", _to_row(before), _to_row(after))

    def remove(self, id: str) -> None:
        """Delete the workspace and unassign its tasks."""
        self._tx.execute("UPDATE plan_tasks SET workspace_id = NULL WHERE workspace_id = :id", id=id)
        self._tx.execute("DELETE FROM workspaces WHERE id = :id", id=id)

    def find_conflicting(self, workspace: Workspace) -> Workspace | None:
        """Return another active workspace with the same tree or branch."""
        sql = f"""
            SELECT {_WORKSPACE_COLUMNS} FROM workspaces
             WHERE status = :active AND host = :host AND id <> :id
               AND (path = :path OR (repository_path = :repository_path AND branch = :branch))
             LIMIT 1
        """
        row = self._tx.fetch_one(
            sql,
            active=WorkspaceStatus.ACTIVE,
            host=workspace.host,
            id=workspace.id,
            path=workspace.path,
            repository_path=workspace.repository_path,
            branch=workspace.branch,
        )
        return _workspace_from_row(row) if row else None

    def list_for_workflow(
        self, workflow_id: str, statuses: Sequence[WorkspaceStatus] | None, limit: int
    ) -> tuple[list[Workspace], int]:
        """Return workspaces of a workflow, oldest first, and their total number."""
        conditions = build_where({"workflow_id = :id": workflow_id, "status IN :statuses": statuses or None})
        values: Row = {"id": workflow_id, "statuses": statuses}
        found, order = f"workspaces {conditions}", "created_at, created_seq"
        rows, total = self._tx.list_first(_WORKSPACE_COLUMNS, found, order, limit, **values)
        return [_workspace_from_row(row) for row in rows], total

    def list_over(self, host: str, before: int) -> list[Workspace]:
        """List the workspaces on a host whose trees deepwork made and whose work was over before a moment.

        Over is what landed, was merged, skipped or abandoned, while no agent of a run works on it.
        """
        columns = ", ".join(f"workspaces.{name}" for name in Workspace.__dataclass_fields__)
        sql = f"""
            SELECT {columns} FROM workspaces JOIN plans ON plans.id = workspaces.workflow_id
             WHERE is_made AND host = :host AND workspaces.updated_at < :before
               AND (workspaces.status IN ('merged', 'abandoned') OR plans.status = 'abandoned'
                    OR (EXISTS (SELECT 1 FROM {_OWN_TASKS}) AND NOT EXISTS (
                        SELECT 1 FROM {_OWN_TASKS} AND task.status <> 'skipped'
                           AND (task.status <> 'completed' OR NOT EXISTS (
                            SELECT 1 FROM landings
                             WHERE landings.task_id = task.id AND landings.status = 'landed')))))
               AND NOT EXISTS (
                   SELECT 1 FROM {_OWN_TASKS} AND (task.updated_at >= :before OR task.claimed_by IS NOT NULL
                     OR EXISTS (SELECT 1 FROM attempts WHERE task_id = task.id AND ended_at IS NULL)))
             ORDER BY workspaces.created_at, workspaces.created_seq
        """
        return [_workspace_from_row(row) for row in self._tx.fetch_all(sql, host=host, before=before)]

    def list_repositories(self, host: str) -> list[str]:
        """List the repositories on a host in which there were workspaces."""
        sql = "SELECT DISTINCT repository_path FROM workspaces WHERE host = :host ORDER BY repository_path"
        return [row["repository_path"] for row in self._tx.fetch_all(sql, host=host)]

    def list_newest(
        self, statuses: Sequence[WorkspaceStatus] | None, limit: int
    ) -> tuple[list[Workspace], int]:
        """Return workspaces of all plans, the newest first, and their total number."""
        found = f"workspaces {build_where({'status IN :statuses': statuses or None})}"
        order = "created_at DESC, created_seq DESC"
        rows, total = self._tx.list_first(_WORKSPACE_COLUMNS, found, order, limit, statuses=statuses)
        return [_workspace_from_row(row) for row in rows], total

    def list_others_in_repository(self, workspace: Workspace, limit: int) -> list[Workspace]:
        """Return other active workspaces of the same repository, oldest first."""
        sql = f"""
            SELECT {_WORKSPACE_COLUMNS} FROM workspaces
             WHERE status = :active AND host = :host AND repository_path = :repository_path AND id <> :id
             ORDER BY created_at, created_seq LIMIT :limit
        """
        rows = self._tx.fetch_all(
            sql,
            active=WorkspaceStatus.ACTIVE,
            host=workspace.host,
            id=workspace.id,
            repository_path=workspace.repository_path,
            limit=limit,
        )
        return [_workspace_from_row(row) for row in rows]

    def assign(self, workspace_id: str | None, task_ids: Sequence[str]) -> None:
        """Assign these tasks to the workspace."""
        sql = "UPDATE plan_tasks SET workspace_id = :id, updated_at = :now WHERE id IN :tasks"
        self._tx.execute(sql, id=workspace_id, now=self._tx.now, tasks=list(task_ids))

    def map_finished_tasks(self, workflow_id: str) -> dict[str, FinishedTask]:
        """Map the workflow's completed tasks that had a workspace to it."""
        columns = ", ".join(f"workspaces.{name}" for name in Workspace.__dataclass_fields__)
        sql = f"""
            SELECT task.id AS task_id, completed_tree, completed_head, {columns} FROM plan_tasks AS task
              JOIN workspaces ON workspaces.id = task.workspace_id
             WHERE task.workflow_id = :workflow_id AND task.status = 'completed' ORDER BY task.position
        """
        rows = self._tx.fetch_all(sql, workflow_id=workflow_id)
        return {row.pop("task_id"): _read_finished_task(row) for row in rows}

    def map_checkout_work(self, workflow_id: str, host: str) -> dict[str, CheckoutWork]:
        """Map completed tasks of the workflow to what they did in the checkout of another machine.

        Not what a store recorded before it was moved from a file to a shared database: it named no machine.
        """
        sql = """
            SELECT task_id, host, tree_path, began, ended, ended_at FROM watches
             WHERE host NOT IN (:host, 'local') AND task_id IN (
                   SELECT id FROM plan_tasks
                    WHERE workflow_id = :workflow_id AND status = 'completed' AND workspace_id IS NULL)
             ORDER BY attempt
        """
        found: dict[str, list[Row]] = {}
        for row in self._tx.fetch_all(sql, workflow_id=workflow_id, host=host):
            found.setdefault(row["task_id"], []).append(row)
        works = {id: self._read_checkout_work(rows) for id, rows in found.items()}
        return {id: work for id, work in works.items() if work is not None}

    def _read_checkout_work(self, watches: Sequence[Row]) -> CheckoutWork | None:
        """Return what one task did in a checkout; None if it changed nothing, or git does not track it."""
        last, began = watches[-1], json.loads(watches[0]["began"])
        ended = json.loads(last["ended"]) if last["ended"] else None
        if began.get("kind") != "git" or (ended and ended.get("tree") == began.get("tree")):
            return None
        place = last["host"], last["tree_path"]
        if ended is None:
            return CheckoutWork(*place, began.get("branch"), None, frozenset())
        sql = """
            SELECT ended FROM watches WHERE host = :host AND tree_path = :path AND ended_at >= :ended_at
        """
        later = self._tx.fetch_all(sql, host=place[0], path=place[1], ended_at=last["ended_at"])
        trees = frozenset(json.loads(row["ended"])["tree"] for row in later if row["ended"])
        return CheckoutWork(*place, ended.get("branch"), ended.get("head"), trees)

    def has_finished_elsewhere(self, workflow_id: str, host: str) -> bool:
        """Return whether a completed task of the workflow was done in a tree of another machine."""
        sql = """
            SELECT 1 FROM plan_tasks AS task
              LEFT JOIN workspaces ON workspaces.id = task.workspace_id
              LEFT JOIN watches ON watches.task_id = task.id AND task.workspace_id IS NULL
             WHERE task.workflow_id = :workflow_id AND task.status = 'completed'
               AND (workspaces.host <> :host OR watches.host NOT IN (:host, 'local')) LIMIT 1
        """
        return self._tx.fetch_value(sql, workflow_id=workflow_id, host=host) is not None

    def list_task_ids(self, workspace_ids: Sequence[str]) -> dict[str, list[str]]:
        """Return the task ids of each of these workspaces."""
        sql = "SELECT workspace_id, id FROM plan_tasks WHERE workspace_id IN :ids ORDER BY position"
        rows = self._tx.fetch_all(sql, ids=list(workspace_ids))
        found: dict[str, list[str]] = {}
        for row in rows:
            found.setdefault(row["workspace_id"], []).append(row["id"])
        return found

    def _select(self, id: str, lock: str) -> Workspace:
        row = self._tx.fetch_one(f"SELECT {_WORKSPACE_COLUMNS} FROM workspaces WHERE id = :id{lock}", id=id)
        if row is None:
            raise NotFound(
                "workspace", id, suggestion="See {tool:workspace_list} for the workspaces of a workflow."
            )
        return _workspace_from_row(row)


_REPOSITORY_COLUMNS = ", ".join(Repository.__dataclass_fields__)
_OWN_TASKS = "plan_tasks AS task WHERE task.workspace_id = workspaces.id"
_WORKSPACE_COLUMNS = ", ".join(Workspace.__dataclass_fields__)
_LISTS = ("builds_on", "unmerged")


def _to_row(workspace: Workspace) -> Row:
    lists = {name: json.dumps(value) if (value := getattr(workspace, name)) else None for name in _LISTS}
    return vars(workspace) | lists


@row_parser
def _repository_from_row(row: Row) -> Repository:
    return Repository(**row)


@row_parser
def _workspace_from_row(row: Row) -> Workspace:
    read = {"status": WorkspaceStatus(row["status"]), "is_made": bool(row["is_made"])}
    lists = {name: tuple(json.loads(row[name])) if row[name] else () for name in _LISTS}
    return Workspace(**(row | read | lists))


def _read_finished_task(row: Row) -> FinishedTask:
    seen = row.pop("completed_tree"), row.pop("completed_head")
    return FinishedTask(_workspace_from_row(row), *seen)
