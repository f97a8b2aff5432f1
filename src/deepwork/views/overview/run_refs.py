"""Runs of all kinds by id: tracks, plans and job sessions."""

from __future__ import annotations

from collections.abc import Iterable

from deepwork.kernel.database.engine import Row
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.errors import NotFound
from deepwork.views.overview.run_store import JOB, WorkListStore, get_run_kind
from deepwork.work.tracking.list_responses import RunRef


class StoredRuns:
    """Finds runs, for slices that know only one kind."""

    def require(self, tx: Transaction, id: str) -> Row:
        """Raise NotFound if there is no such run."""
        return get_run_row(tx, id)

    def find_refs(self, tx: Transaction, ids: Iterable[str]) -> dict[str, RunRef]:
        """Find kind and name of these runs; missing runs are left out."""
        return find_run_refs(tx, ids)


def get_run_row(tx: Transaction, id: str) -> Row:
    """Get the row of a run; raise NotFound if there is none."""
    kind = get_run_kind(id)
    if (row := WorkListStore(tx).find(kind, id)) is None:
        raise NotFound(
            "session" if kind == JOB else "workflow", id, suggestion="List runs with /api/v1/runs."
        )
    return row


def find_run_refs(tx: Transaction, ids: Iterable[str]) -> dict[str, RunRef]:
    """Find kind and name of these runs; missing runs are left out."""
    return {
        id: RunRef(id=id, kind=kind, name=name)  # type: ignore[arg-type] # one of KINDS
        for id, (kind, name) in WorkListStore(tx).find_names(list(ids)).items()
    }
