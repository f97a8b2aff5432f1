"""What is kept of repositories and workspaces."""

from __future__ import annotations

from collections.abc import Sequence

from deepwork.database.engine import Row, stored
from deepwork.database.statements import where
from deepwork.database.transaction import Transaction
from deepwork.errors import NotFound
from deepwork.names import new_id
from deepwork.workspaces.models import Repository, Workspace, WorkspaceStatus


class RepositoryStore:
    """Repositories, as rows."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def add(self, host: str, path: str, name: str) -> bool:
        """Keep a repository; False if it is known already."""
        added = self._tx.run(
            """
            INSERT INTO repositories (id, host, path, name, created_at, updated_at)
            VALUES (:id, :host, :path, :name, :now, :now) ON CONFLICT (host, path) DO NOTHING
            """,
            id=new_id("rp"), host=host, path=path, name=name, now=self._tx.now,
        )  # fmt: skip
        return added == 1

    def find(self, host: str, path: str) -> Repository | None:
        """The repository at this place."""
        row = self._tx.one(
            f"SELECT {_REPOSITORY} FROM repositories WHERE host = :host AND path = :path",
            host=host, path=path,
        )  # fmt: skip
        return _repository(row) if row else None

    def rename(self, repository: Repository, name: str) -> None:
        """Call it something else from now on."""
        self._tx.update("repositories", repository.id, {"name": name, "updated_at": self._tx.now})

    def newest(self, limit: int, offset: int) -> tuple[list[Repository], int]:
        """Repositories, newest first, and how many there are in all."""
        rows = self._tx.all(
            f"SELECT {_REPOSITORY} FROM repositories ORDER BY created_at DESC, created_seq DESC"
            " LIMIT :limit OFFSET :offset",
            limit=limit, offset=offset,
        )  # fmt: skip
        total: int = self._tx.value("SELECT count(*) FROM repositories")
        return [_repository(row) for row in rows], total


class WorkspaceStore:
    """Workspaces, as rows."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def add(self, workspace: Workspace) -> bool:
        """Keep a new workspace; False if an active one has its tree or its branch."""
        row = _row(workspace)
        columns, values = ", ".join(row), ", ".join(f":{name}" for name in row)
        sql = f"INSERT INTO workspaces ({columns}) VALUES ({values}) ON CONFLICT DO NOTHING"
        return self._tx.run(sql, **row) == 1

    def get(self, id: str) -> Workspace:
        """The workspace with this id."""
        return self._one(id, "")

    def hold(self, id: str) -> Workspace:
        """The workspace with this id; nobody else changes it until we are done."""
        return self._one(id, self._tx.row_lock)

    def find(self, id: str) -> Workspace | None:
        """The workspace with this id, if it is still there."""
        row = self._tx.one(f"SELECT {_WORKSPACE} FROM workspaces WHERE id = :id", id=id)
        return _workspace(row) if row else None

    def keep(self, before: Workspace, after: Workspace) -> None:
        """Keep what changed."""
        old, new = _row(before), _row(after)
        self._tx.update("workspaces", after.id, {name: new[name] for name in new if new[name] != old[name]})

    def remove(self, id: str) -> None:
        """Forget it, as if it had never been asked for; no task is assigned to it any more."""
        self._tx.run("UPDATE plan_tasks SET workspace_id = NULL WHERE workspace_id = :id", id=id)
        self._tx.run("DELETE FROM workspaces WHERE id = :id", id=id)

    def rival(self, workspace: Workspace) -> Workspace | None:
        """The active workspace that has its tree or its branch."""
        row = self._tx.one(
            f"""
            SELECT {_WORKSPACE} FROM workspaces
             WHERE status = :active AND host = :host AND id <> :id
               AND (path = :path OR (repository_path = :repository_path AND branch = :branch))
             LIMIT 1
            """,
            active=WorkspaceStatus.ACTIVE, host=workspace.host, id=workspace.id, path=workspace.path,
            repository_path=workspace.repository_path, branch=workspace.branch,
        )  # fmt: skip
        return _workspace(row) if row else None

    def of_workflow(
        self, workflow_id: str, statuses: Sequence[WorkspaceStatus] | None, limit: int
    ) -> tuple[list[Workspace], int]:
        """The workspaces of a workflow, the oldest first, and how many there are in all."""
        conditions = where({"workflow_id = :id": workflow_id, "status IN :statuses": statuses or None})
        values = {"id": workflow_id, "statuses": statuses}
        rows = self._tx.all(
            f"SELECT {_WORKSPACE} FROM workspaces {conditions} ORDER BY created_at, created_seq LIMIT :limit",
            limit=limit, **values,
        )  # fmt: skip
        total: int = self._tx.value(f"SELECT count(*) FROM workspaces {conditions}", **values)
        return [_workspace(row) for row in rows], total

    def neighbours(self, workspace: Workspace, limit: int) -> list[Workspace]:
        """Other active workspaces of the same repository, the oldest first."""
        rows = self._tx.all(
            f"""
            SELECT {_WORKSPACE} FROM workspaces
             WHERE status = :active AND host = :host AND repository_path = :repository_path AND id <> :id
             ORDER BY created_at, created_seq LIMIT :limit
            """,
            active=WorkspaceStatus.ACTIVE, host=workspace.host, id=workspace.id,
            repository_path=workspace.repository_path, limit=limit,
        )  # fmt: skip
        return [_workspace(row) for row in rows]

    def assign(self, workspace_id: str | None, task_ids: Sequence[str]) -> None:
        """From now on these tasks are worked on there."""
        self._tx.run(
            "UPDATE plan_tasks SET workspace_id = :id, updated_at = :now WHERE id IN :tasks",
            id=workspace_id, now=self._tx.now, tasks=list(task_ids),
        )  # fmt: skip

    def tasks(self, workspace_ids: Sequence[str]) -> dict[str, list[str]]:
        """The tasks that are worked on in each of these."""
        rows = self._tx.all(
            "SELECT workspace_id, id FROM plan_tasks WHERE workspace_id IN :ids ORDER BY position",
            ids=list(workspace_ids),
        )  # fmt: skip
        found: dict[str, list[str]] = {}
        for row in rows:
            found.setdefault(row["workspace_id"], []).append(row["id"])
        return found

    def _one(self, id: str, lock: str) -> Workspace:
        row = self._tx.one(f"SELECT {_WORKSPACE} FROM workspaces WHERE id = :id{lock}", id=id)
        if row is None:
            raise NotFound("workspace", id, suggestion="See workspace_list for those of a workflow.")
        return _workspace(row)


_REPOSITORY = ", ".join(Repository.__dataclass_fields__)
_WORKSPACE = ", ".join(Workspace.__dataclass_fields__)


def _row(workspace: Workspace) -> Row:
    return dict(vars(workspace))


@stored
def _repository(row: Row) -> Repository:
    return Repository(**row)


@stored
def _workspace(row: Row) -> Workspace:
    read = {"status": WorkspaceStatus(row["status"]), "is_made": bool(row["is_made"])}
    return Workspace(**(row | read))
