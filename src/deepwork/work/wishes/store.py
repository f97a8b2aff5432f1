"""Storage of wishes."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import Any

from deepwork.kernel.database.engine import Row, row_parser
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.errors import NotFound
from deepwork.work.wishes.models import Wish, WishFinding, WishOptions, WishRole, WishSource


class WishStore:
    """Reads and writes wishes."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def add(self, wish: Wish) -> None:
        """Insert a new wish."""
        self._tx.insert("wishes", _to_row(wish))

    def save(self, wish: Wish) -> None:
        """Store a changed wish."""
        row = _to_row(wish) | {"updated_at": self._tx.now}
        self._tx.update("wishes", row.pop("id"), row)

    def get(self, id: str, *, for_update: bool = False) -> Wish:
        """Return a wish, locked until the transaction ends if it is to be changed; raises NotFound."""
        lock = self._tx.row_lock if for_update else ""
        row = self._tx.fetch_one(f"SELECT * FROM wishes WHERE id = :id{lock}", id=id)
        if row is None:
            raise NotFound("wish", id, suggestion="List the wishes with `deepwork do --list`.")
        return _read_wish(row)

    def find_of_plan(self, workflow_id: str | None) -> Wish | None:
        """Return the wish whose plan this is, or whose planning."""
        if workflow_id is None:
            return None
        row = self._tx.fetch_one(
            "SELECT * FROM wishes WHERE plan_id = :id OR planning_id = :id", id=workflow_id
        )
        return None if row is None else _read_wish(row)

    def has_branch(self, repository_path: str, branch: str) -> bool:
        """Return whether a wish lands on this branch."""
        sql = "SELECT 1 FROM wishes WHERE repository_path = :repository_path AND branch = :branch"
        return self._tx.fetch_value(sql, repository_path=repository_path, branch=branch) is not None

    def list_page(
        self, repository_path: str | None, *, after: tuple[int, str] | None = None, limit: int
    ) -> tuple[list[Wish], int]:
        """List wishes, the newest first, and how many there are."""
        conditions = {"repository_path = :path": repository_path}
        rows, total = self._tx.list_newest("wishes", "*", conditions, after, limit, path=repository_path)
        return [_read_wish(row) for row in rows], total


def _to_row(wish: Wish) -> Row:
    row = {each.name: getattr(wish, each.name) for each in fields(Wish)}
    return row | {
        "source": wish.source.value,
        "options": json.dumps(asdict(wish.options)),
        "review_tasks": json.dumps(wish.review_tasks),
        "findings": json.dumps([asdict(each) for each in wish.findings]),
    }


@row_parser
def _read_wish(row: Row) -> Wish:
    given: dict[str, Any] = {each.name: row[each.name] for each in fields(Wish)}
    written = json.loads(row["options"])
    known = {each.name: written[each.name] for each in fields(WishOptions) if each.name in written}
    for key in ("agents", "checks"):
        known[key] = tuple(known.get(key) or ())
    found = [
        WishFinding(each["title"], each["text"], tuple(each["files"])) for each in json.loads(row["findings"])
    ]
    given |= {
        "source": WishSource(row["source"]),
        "options": WishOptions(**known),
        "review_tasks": tuple(json.loads(row["review_tasks"])),
        "findings": tuple(found),
    }
    return Wish(**given)


def find_role(tx: Transaction, workflow_id: str | None, task_id: str) -> tuple[Wish | None, WishRole | None]:
    """Return the wish that a task is about, and what its agent is for it; None: one like any other."""
    wish = WishStore(tx).find_of_plan(workflow_id)
    return wish, wish.find_role(workflow_id, task_id) if wish else None
