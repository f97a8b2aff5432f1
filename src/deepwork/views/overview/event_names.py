"""The names of what events are about: they contain ids, and people read names."""

from __future__ import annotations

import re
from collections.abc import Iterable

from deepwork.kernel.database.engine import Row
from deepwork.kernel.database.transaction import Transaction
from deepwork.views.overview.run_store import WorkListStore
from deepwork.work.agents.store import AgentStore
from deepwork.work.plans.stores.task_store import TaskStore

_ID_PATTERN = re.compile(r"(?:tk|ag)_\w+")


def find_event_names(tx: Transaction, events: Iterable[Row]) -> dict[str, str]:
    """Return the names of the runs, planned tasks and agents of these events, by id; not of what is gone."""
    ids: set[str] = set()
    runs: set[str] = set()
    for event in events:
        texts = [value for value in event["data"].values() if isinstance(value, str)]
        ids.update(text for text in texts if _ID_PATTERN.fullmatch(text))
        if event["workflow_id"]:
            runs.add(event["workflow_id"])
    return (
        {id: name for id, (_, name) in WorkListStore(tx).find_names(sorted(runs)).items()}
        | TaskStore(tx).map_names(id for id in ids if id.startswith("tk_"))
        | AgentStore(tx).get_names(sorted(id for id in ids if id.startswith("ag_")))
    )
