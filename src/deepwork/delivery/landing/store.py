"""Storage of landings, and of the leases of branches."""

from __future__ import annotations

from collections.abc import Sequence

from deepwork.delivery.landing.models import BranchLease, Landing, LandingKind, LandingStatus, Problem
from deepwork.kernel.database.engine import Row, row_parser
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.errors import NotFound

_PENDING = tuple(status.value for status in LandingStatus if status.is_pending)


class LandingStore:
    """Reads and writes landings."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def add(self, landing: Landing) -> bool:
        """Insert a landing; False if one of the same subject is open."""
        return self._tx.insert_new("landings", _to_row(landing))

    def save(self, before: Landing, after: Landing) -> bool:
        """Store what changed; False if its status is not what it was, because another process moved it."""
        return self._tx.save_change("landings", _to_row(before), _to_row(after), "status")

    def get(self, id: str) -> Landing:
        """Return the landing."""
        if found := self.find(id):
            return found
        raise NotFound("landing", id, suggestion="List them with `deepwork landings list`.")

    def find(self, id: str) -> Landing | None:
        """Return the landing, or None."""
        return _read_optional(self._tx.fetch_one(f"SELECT {_COLUMNS} FROM landings WHERE id = :id", id=id))

    def get_for_update(self, id: str) -> Landing:
        """Return the landing, locked until the transaction ends."""
        sql = f"SELECT {_COLUMNS} FROM landings WHERE id = :id{self._tx.row_lock}"
        found = _read_optional(self._tx.fetch_one(sql, id=id))
        return found or self.get(id)

    def find_open(self, subject_id: str) -> Landing | None:
        """Return the landing of this subject that has not ended."""
        sql = f"SELECT {_COLUMNS} FROM landings WHERE subject_id = :id AND ended_at IS NULL"
        return _read_optional(self._tx.fetch_one(sql, id=subject_id))

    def find_newest(self, subject_ids: Sequence[str]) -> dict[str, Landing]:
        """Map each of these subjects that has landings to the newest one."""
        sql = f"SELECT {_COLUMNS} FROM landings WHERE subject_id IN :ids ORDER BY created_seq"
        rows = self._tx.fetch_all(sql, ids=list(subject_ids)) if subject_ids else []
        return {row["subject_id"]: _from_row(row) for row in rows}

    def find_by_ids(self, ids: Sequence[str]) -> list[Landing]:
        """Return these landings, in the order of their creation."""
        sql = f"SELECT {_COLUMNS} FROM landings WHERE id IN :ids ORDER BY created_seq"
        return [_from_row(row) for row in self._tx.fetch_all(sql, ids=list(ids))] if ids else []

    def list_pending(self, host: str, repository_path: str, target: str) -> list[Landing]:
        """List what a process has to work on for this branch, the work that was done first first."""
        sql = f"""
            SELECT {_COLUMNS} FROM landings
             WHERE host = :host AND repository_path = :repository_path AND target = :target
               AND ended_at IS NULL AND status IN :pending
             ORDER BY done_at, created_seq
        """
        values = {"host": host, "repository_path": repository_path, "target": target, "pending": _PENDING}
        return [_from_row(row) for row in self._tx.fetch_all(sql, **values)]

    def list_open_of_plan(self, workflow_id: str) -> list[Landing]:
        """List the landings of a plan that have not ended."""
        return self.list_open_of_plans([workflow_id])

    def list_open_of_plans(self, workflow_ids: Sequence[str]) -> list[Landing]:
        """List the landings of plans that have not ended."""
        sql = (
            f"SELECT {_COLUMNS} FROM landings WHERE workflow_id IN :ids AND ended_at IS NULL"
            " ORDER BY done_at, created_seq"
        )
        return [_from_row(row) for row in self._tx.fetch_all(sql, ids=list(workflow_ids))]

    def find_by_merge_commits(self, repository_path: str, commits: Sequence[str]) -> dict[str, Landing]:
        """Map those of these commits that landings made in a repository to the landings."""
        if not commits:
            return {}
        sql = (
            f"SELECT {_COLUMNS} FROM landings WHERE repository_path = :path AND status = 'landed'"
            " AND merge_commit IN :commits ORDER BY created_seq"
        )
        rows = self._tx.fetch_all(sql, path=repository_path, commits=list(commits))
        return {row["merge_commit"]: _from_row(row) for row in rows}

    def list_landed_of_tasks(self, task_ids: Sequence[str]) -> list[Landing]:
        """List the work of these tasks that has landed, the newest first."""
        sql = f"""
            SELECT {_COLUMNS} FROM landings
             WHERE subject_id IN :ids AND kind = 'task' AND status = 'landed' AND merge_commit IS NOT NULL
             ORDER BY ended_at DESC, created_seq DESC
        """
        return [_from_row(row) for row in self._tx.fetch_all(sql, ids=list(task_ids))]

    def find_landed_elsewhere(self, workflow_id: str, target: str, host: str) -> Landing | None:
        """Return the newest landing of the plan onto this branch on another machine."""
        sql = f"""
            SELECT {_COLUMNS} FROM landings
             WHERE workflow_id = :id AND target = :target AND host <> :host AND status = 'landed'
               AND branch_commit IS NOT NULL
             ORDER BY ended_at DESC, created_seq DESC LIMIT 1
        """
        return _read_optional(self._tx.fetch_one(sql, id=workflow_id, target=target, host=host))

    def count_landed_tasks(self, workflow_id: str) -> int:
        """Count the tasks of a plan that have landed."""
        sql = """
            SELECT count(DISTINCT task_id) FROM landings
             WHERE workflow_id = :id AND kind = 'task' AND status = 'landed'
        """
        return int(self._tx.fetch_value(sql, id=workflow_id))

    def find_other_target(self, branch: str, repository_path: str, target: str) -> str | None:
        """Return another target whose landings moved this integration branch, which is itself none."""
        sql = """
            SELECT target FROM landings
             WHERE branch = :branch AND repository_path = :repository_path
               AND target NOT IN (:target, :branch) LIMIT 1
        """
        found: str | None = self._tx.fetch_value(
            sql, branch=branch, repository_path=repository_path, target=target
        )
        return found

    def list_newest(
        self,
        *,
        statuses: Sequence[LandingStatus] | None = None,
        workflow_id: str | None = None,
        task_id: str | None = None,
        is_open: bool = False,
        is_ended: bool = False,
        after: tuple[int, str] | None = None,
        limit: int,
    ) -> tuple[list[Landing], int]:
        """List landings, the newest first, and how many match in all."""
        conditions = {
            "status IN :statuses": statuses or None,
            "workflow_id = :workflow_id": workflow_id,
            "task_id = :task_id": task_id,
            "ended_at IS NULL": is_open or None,
            "ended_at IS NOT NULL": is_ended or None,
        }
        given = {"statuses": list(statuses or ()), "workflow_id": workflow_id, "task_id": task_id}
        rows, total = self._tx.list_newest("landings", _COLUMNS, conditions, after, limit, **given)
        return [_from_row(row) for row in rows], total


class BranchLeaseStore:
    """Gives the right to move a branch to one process at a time, by the clock of the store.

    A row stays when its lease ends, because its epoch must never repeat.
    """

    def __init__(self, tx: Transaction, lease_ms: int) -> None:
        self._tx, self._lease_ms = tx, lease_ms

    def take(self, repository: str, branch: str, holder: str) -> BranchLease | None:
        """Give the lease to this process; None if another one holds it. One upsert decides."""
        sql = """
            INSERT INTO branch_leases (repository, branch, holder, epoch, until)
            VALUES (:repository, :branch, :holder, 1, :until)
                ON CONFLICT (repository, branch) DO UPDATE
               SET epoch = branch_leases.epoch + 1, holder = :holder, until = :until
             WHERE branch_leases.holder IS NULL OR branch_leases.until < :now
            RETURNING epoch
        """
        now = self._tx.now
        place = {"repository": repository, "branch": branch}
        row = self._tx.fetch_one(sql, **place, holder=holder, until=now + self._lease_ms, now=now)
        return BranchLease(**place, holder=holder, epoch=row["epoch"]) if row else None

    def renew(self, lease: BranchLease) -> bool:
        """Extend the lease; False if another process has taken it meanwhile."""
        sql = f"UPDATE branch_leases SET until = :until WHERE {_IS_HELD}"
        return self._tx.execute(sql, until=self._tx.now + self._lease_ms, **vars(lease)) == 1

    def release(self, lease: BranchLease) -> None:
        """End the lease, if it is still held."""
        self._tx.execute(f"UPDATE branch_leases SET holder = NULL WHERE {_IS_HELD}", **vars(lease))


def is_branch_held(tx: Transaction, branch: str) -> bool:
    """Return whether a process holds the lease of a branch of this name, in any repository."""
    sql = (
        "SELECT 1 FROM branch_leases WHERE branch = :branch AND holder IS NOT NULL AND until >= :now LIMIT 1"
    )
    return tx.fetch_value(sql, branch=branch, now=tx.now) is not None


_IS_HELD = "repository = :repository AND branch = :branch AND holder = :holder AND epoch = :epoch"
_COLUMNS = ", ".join(Landing.__dataclass_fields__)


def _to_row(landing: Landing) -> Row:
    return vars(landing) | {
        "kind": landing.kind.value,
        "status": landing.status.value,
        "problem": landing.problem.value if landing.problem else None,
    }


def _read_optional(row: Row | None) -> Landing | None:
    return None if row is None else _from_row(row)


@row_parser
def _from_row(row: Row) -> Landing:
    read = {
        "kind": LandingKind(row["kind"]),
        "status": LandingStatus(row["status"]),
        "problem": Problem(row["problem"]) if row["problem"] else None,
    }
    return Landing(**(row | read))
