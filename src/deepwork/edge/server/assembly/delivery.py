"""Builds what lands and rewinds work."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from deepwork.delivery.landing.checker import MergeChecker
from deepwork.delivery.landing.queue import LandingQueue
from deepwork.delivery.landing.recorder import BranchLeases, LandingRecorder, WorkReturner
from deepwork.delivery.landing.service import LandingService
from deepwork.delivery.landing.work_finder import WorkFinder
from deepwork.delivery.runner.finishing import AttemptOrigins
from deepwork.edge.server.assembly.trees import open_git
from deepwork.kernel.records import dataclass

if TYPE_CHECKING:
    from deepwork.delivery.landing.prepared import PreparedLander
    from deepwork.delivery.rewind.operations import RewindOperations
    from deepwork.gates.checks.service import CheckService
    from deepwork.kernel.database.transaction import Database
    from deepwork.work.agents.presence import Presence
    from deepwork.work.tracking.attribution_service import AttributionService
    from deepwork.work.workspaces.repositories import RepositoryLocator


@dataclass
class Landings:
    """The services that land work: branches of tasks, and commits that others prepare."""

    database: Database
    repositories: RepositoryLocator
    get_checks: Callable[[Path], CheckService]

    def __post_init__(self) -> None:
        database, self._host, origins = self.database, self.repositories.host, AttemptOrigins()
        self._leases = leases = BranchLeases(database, open_git)
        self._recorder = recorder = LandingRecorder(database, leases)
        self._checker = checker = MergeChecker(self.get_checks, leases)
        finder, returner = WorkFinder(database, self.repositories, open_git), WorkReturner(recorder, origins)
        self._queue = LandingQueue(
            database, leases, recorder, returner, checker, finder, open_git, self._host
        )
        self.service = LandingService(database, self._queue, finder, open_git, self._host, origins)

    @cached_property
    def prepared(self) -> PreparedLander:
        """Lands commits that others prepare: only rewinds need it."""
        from deepwork.delivery.landing.prepared import PreparedLander

        parts = self._leases, self._recorder, self._queue, self._checker, open_git, self._host
        return PreparedLander(self.database, *parts)


def build_rewind_operations(
    database: Database,
    presence: Presence,
    repositories: RepositoryLocator,
    attribution: AttributionService,
    get_lander: Callable[[], PreparedLander],
    state_folder: Path,
) -> RewindOperations:
    """Build what people read and do about rewinds."""
    from deepwork.delivery.rewind.landed_work import LandedWork
    from deepwork.delivery.rewind.operations import RewindOperations
    from deepwork.delivery.rewind.planner import RewindPlanner
    from deepwork.delivery.rewind.service import RewindService
    from deepwork.delivery.rewind.tree_plans import TreePlanner
    from deepwork.delivery.rewind.undoing import UndoPlanner

    trees = TreePlanner(attribution, open_git)
    landed = LandedWork(database, open_git, get_lander)
    return RewindOperations(
        database,
        RewindPlanner(database, repositories, trees, landed),
        UndoPlanner(database, trees, landed),
        RewindService(database, presence, trees, landed, state_folder),
    )
