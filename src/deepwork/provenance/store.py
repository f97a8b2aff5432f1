"""Storage of commit links. Each query is about many commits."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from deepwork.database.engine import Row, row_parser
from deepwork.database.transaction import Transaction
from deepwork.provenance.models import CommitLink, KnownBy

_BATCH_SIZE = 128
"""SQLite takes the square of their number to bind named values."""
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
        return [
            _from_values(values)
            for batch in _split(sorted(wanted))
            for values in self._tx.fetch_tuples(
                f"SELECT {_COLUMNS} FROM commit_links WHERE {column} IN :wanted", wanted=batch
            )
        ]

    def _to_row(self, link: CommitLink) -> Row:
        return link._asdict() | {
            "known_by": link.known_by.value,
            "is_likely": int(link.is_likely),
            "recorded_at": self._tx.now,
        }


def _split(values: Sequence[str]) -> Iterator[list[str]]:
    """Split values so that no statement has more than a database accepts; its text is then prepared once."""
    for start in range(0, len(values), _BATCH_SIZE):
        batch = list(values[start : start + _BATCH_SIZE])
        size = 1 << (len(batch) - 1).bit_length()
        yield batch + batch[-1:] * (min(size, _BATCH_SIZE) - len(batch))


@row_parser
def _from_values(values: tuple[Any, ...]) -> CommitLink:
    """Build a link from the columns in the order of its fields."""
    task_id, hash, before, tree, known_by, patch_id, workflow_id, attempt_id, agent_id, is_likely, at = values
    return CommitLink(
        task_id,
        hash,
        before,
        tree,
        _KNOWN_BY[known_by],
        patch_id,
        workflow_id,
        attempt_id,
        agent_id,
        bool(is_likely),
        at,
    )
