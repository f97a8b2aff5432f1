"""What an agent should know when its session begins anew: what is under way, and what of it is its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deepwork.config import Settings
from deepwork.database.engine import Row
from deepwork.database.transaction import Transaction
from deepwork.hooks.learning import Record
from deepwork.hooks.store import MOST, UnderWayStore

CONTEXT_TOKENS = 1200
_CHECKPOINTS = 3
_AROUND = 20
_LOOKED_AT = 50


@dataclass(frozen=True)
class Place:
    """The project that is asked about."""

    sessions: Path
    """Where its job sessions are kept."""
    repository: str | None
    """Its path, where the store has plans of other projects too."""


@dataclass(frozen=True)
class Situation:
    """What is under way."""

    agents: dict[str, str]
    """Whom the session acts as, by id, and what they are called."""
    perhaps: dict[str, str]
    """Whom the session may have acted as before; another may be doing so now."""
    perhaps_held: list[Row]
    jobs: list[Row]
    jobs_are_own: bool
    held: list[Row]
    context: dict[str, Any] | None
    """Of the first task that is held."""
    tracked: list[Row]
    tracked_tasks: list[Row]
    plans: list[Row]
    unread: list[Row]
    lost: list[Row]

    @property
    def is_empty(self) -> bool:
        found = (self.perhaps_held, self.jobs, self.held, self.tracked, self.plans, self.unread, self.lost)
        return not any(found)


def place_of(settings: Settings) -> Place:
    """The project of these settings."""
    has_others = settings.global_store or "://" in settings.database_location
    return Place(settings.state_folder / "tmp", str(settings.repository_root) if has_others else None)


def look(tx: Transaction, place: Place, record: Record, perhaps: Sequence[str] = ()) -> Situation:
    """What is under way for this session; where nothing is known of it, for everybody in the project."""
    store = UnderWayStore(tx)
    held = store.held(record.agents) if record.agents else []
    tracked = (record.workflow and store.tracked(None, record.workflow)) or store.tracked(
        place.repository, None
    )
    own = store.job(record.jobs) if record.jobs else None
    return Situation(
        agents=store.names(record.agents) if record.agents else {},
        perhaps=store.names(perhaps) if perhaps else {},
        perhaps_held=store.held(perhaps) if perhaps else [],
        jobs=[own] if own else _jobs(store, place),
        jobs_are_own=own is not None,
        held=held,
        context=_context(tx, held[0]["id"]) if held else None,
        tracked=tracked,
        tracked_tasks=store.open_tracked_tasks([row["id"] for row in tracked]) if tracked else [],
        plans=[row for row in store.plans(place.repository) if row["total"]],
        unread=store.unread(record.agents) if record.agents else [],
        lost=store.lost(record.agents) if record.agents else [],
    )


def _jobs(store: UnderWayStore, place: Place) -> list[Row]:
    """All that this project keeps the files of."""
    found = store.jobs(_LOOKED_AT)
    return [row for row in found if (place.sessions / f"session_{row['id']}.json").exists()][:MOST]


def _context(tx: Transaction, task_id: str) -> dict[str, Any]:
    """What is needed to go on with a task, within a budget."""
    # Only who holds a task pays for these.
    from deepwork.plans import context as contexts  # noqa: PLC0415
    from deepwork.plans.checkpoints import CheckpointStore  # noqa: PLC0415
    from deepwork.plans.store import PlanStore  # noqa: PLC0415
    from deepwork.plans.task_store import TaskStore  # noqa: PLC0415

    store = TaskStore(tx)
    task = store.get(task_id)
    pending, pending_total = store.open_dependencies(task, _AROUND)
    completed, completed_total = store.done_dependencies(task, _AROUND)
    prior, prior_total = store.prior(task, _AROUND)
    material = contexts.Material(
        workflow=PlanStore(tx).get(task.workflow_id), task=task,
        checkpoints=CheckpointStore(tx).newest(task.id, _CHECKPOINTS), checkpoints_total=task.checkpoints,
        prior_tasks=prior, prior_total=prior_total, siblings=[], siblings_total=0,
        dependencies=[*completed, *pending], dependencies_total=pending_total + completed_total,
    )  # fmt: skip
    include = contexts.Include(sibling_status=False, recent_checkpoints=_CHECKPOINTS)
    return contexts.load(material, include, CONTEXT_TOKENS)
