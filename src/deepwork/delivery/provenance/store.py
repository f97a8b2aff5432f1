"""Storage of commit links. Each query is about many commits."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from deepwork.delivery.provenance.models import CommitLink, KnownBy
from deepwork.kernel.database.engine import Row, row_parser
from deepwork.kernel.database.transaction import Transaction

_COLUMNS = ", ".join(CommitLink._fields)

_KNOWN_BY = {each.value: each for each in KnownBy}


class LinkStore:
    """Reads and writes commit links; lists have no order."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def add(self, links: Sequence[CommitLink]) -> None:
        """Insert links; one that is there already stays as it is."""
        values = ", ".join(f":{name}" for name in CommitLink._fields)
        sql = f"INSERT INTO commit_links ({_COLUMNS}) VALUES ({values}) ON CONFLICT DO NOTHING"
        self._tx.execute_many(sql, [self._to_row(link) for link in links])

    def list_by_commits(self, hashes: Collection[str]) -> list[CommitLink]:
        """List the links of these commits."""
        return self._list("commit_hash", hashes)

    def list_by_trees(self, trees: Collection[str]) -> list[CommitLink]:
        """List the links whose change ends with one of these trees."""
        return self._list("tree", trees)

    def list_by_patch_ids(self, patch_ids: Collection[str]) -> list[CommitLink]:
        """List the links that make one of these changes."""
        return self._list("patch_id", patch_ids)

    def list_by_tasks(self, task_ids: Collection[str]) -> list[CommitLink]:
        """List everything that these tasks made."""
        return self._list("task_id", task_ids)

    def _list(self, column: str, wanted: Collection[str]) -> list[CommitLink]:
        """List the links with one of these values; passed as one, because SQLite is slow to bind many."""
        given = self._tx.json_texts.given.format(name="wanted")
        sql = f"SELECT {_COLUMNS} FROM commit_links WHERE {column} IN ({given})"
        rows = self._tx.fetch_tuples(sql, wanted=json.dumps(list(wanted))) if wanted else ()
        return _from_rows(rows)

    def _to_row(self, link: CommitLink) -> Row:
        return link._asdict() | {
            "known_by": link.known_by.value,
            "is_likely": int(link.is_likely),
            "recorded_at": self._tx.now,
        }


@row_parser
def _from_rows(rows: Iterable[tuple[Any, ...]]) -> list[CommitLink]:
    """Build links from columns in the order of their fields."""
    return [
        CommitLink(task, hash, before, tree, _KNOWN_BY[how], patch, plan, attempt, agent, bool(likely), at)
        for task, hash, before, tree, how, patch, plan, attempt, agent, likely, at in rows
    ]
