"""Builds what rewinds tasks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from deepwork.delivery.landing.prepared import PreparedLander
from deepwork.delivery.rewind.landed_work import LandedWork
from deepwork.delivery.rewind.operations import RewindOperations
from deepwork.delivery.rewind.planner import RewindPlanner
from deepwork.delivery.rewind.service import RewindService
from deepwork.delivery.rewind.tree_plans import TreePlanner
from deepwork.delivery.rewind.undoing import UndoPlanner
from deepwork.edge.server.git_access import open_git
from deepwork.kernel.database.transaction import Database
from deepwork.work.agents.presence import Presence
from deepwork.work.tracking.attribution_service import AttributionService
from deepwork.work.workspaces.repositories import RepositoryLocator


def build_rewind_operations(
    database: Database,
    presence: Presence,
    repositories: RepositoryLocator,
    attribution: AttributionService,
    get_lander: Callable[[], PreparedLander],
    state_folder: Path,
) -> RewindOperations:
    """Build what people read and do about rewinds."""
    trees = TreePlanner(attribution, open_git)
    landed = LandedWork(database, open_git, get_lander)
    return RewindOperations(
        database,
        RewindPlanner(database, repositories, trees, landed),
        UndoPlanner(database, trees, landed),
        RewindService(database, presence, trees, landed, state_folder),
    )
