"""Builds what rewinds tasks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from deepwork.agents.presence import Presence
from deepwork.database.transaction import Database
from deepwork.landing.prepared import PreparedLander
from deepwork.rewind.actions import RewindActions
from deepwork.rewind.landed_work import LandedWork
from deepwork.rewind.planner import RewindPlanner
from deepwork.rewind.service import RewindService
from deepwork.rewind.tree_plans import TreePlanner
from deepwork.rewind.undoing import UndoPlanner
from deepwork.server.git_access import open_git
from deepwork.tracking.attribution_service import AttributionService
from deepwork.workspaces.repositories import RepositoryLocator


def build_rewind_actions(
    database: Database,
    presence: Presence,
    repositories: RepositoryLocator,
    attribution: AttributionService,
    get_lander: Callable[[], PreparedLander],
    state_folder: Path,
) -> RewindActions:
    """Build the actions of people that undo tasks."""
    trees = TreePlanner(attribution, open_git)
    landed = LandedWork(database, open_git, get_lander)
    return RewindActions(
        database,
        RewindPlanner(database, repositories, trees, landed),
        UndoPlanner(database, trees, landed),
        RewindService(database, presence, trees, landed, state_folder),
    )
