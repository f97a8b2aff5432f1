"""Builds the services that land work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from deepwork.delivery.landing.checker import MergeChecker
from deepwork.delivery.landing.leases import BranchLeases
from deepwork.delivery.landing.prepared import PreparedLander
from deepwork.delivery.landing.queue import LandingQueue
from deepwork.delivery.landing.recorder import LandingRecorder
from deepwork.delivery.landing.returning import WorkReturner
from deepwork.delivery.landing.service import LandingService
from deepwork.delivery.landing.work_finder import WorkFinder
from deepwork.edge.server.git_access import open_git

if TYPE_CHECKING:
    from deepwork.delivery.landing.interfaces import LandingObserver, WorkOrigins
    from deepwork.gates.checks.service import CheckService
    from deepwork.kernel.database.transaction import Database
    from deepwork.work.workspaces.repositories import RepositoryLocator


@dataclass(frozen=True)
class LandingParts:
    """The services that landings use."""

    database: Database
    repositories: RepositoryLocator
    get_checks: Callable[[Path], CheckService]
    origins: WorkOrigins | None = None
    observers: Sequence[LandingObserver] = ()
    """Called in the transaction that ends a landing, with the commit that became part of a branch."""


@dataclass(frozen=True)
class Landings:
    """The services that land work: branches of tasks, and commits that others prepare."""

    service: LandingService
    prepared: PreparedLander
    recorder: LandingRecorder


def build_landings(parts: LandingParts) -> Landings:
    """Build the services that land work on this machine."""
    database, host = parts.database, parts.repositories.host
    leases = BranchLeases(database, open_git)
    recorder = LandingRecorder(database, leases, parts.observers)
    finder = WorkFinder(database, parts.repositories, open_git)
    checker = MergeChecker(parts.get_checks, leases)
    queue = LandingQueue(
        database, leases, recorder, WorkReturner(recorder, parts.origins), checker, finder, open_git, host
    )
    return Landings(
        LandingService(database, queue, finder, open_git, host, parts.origins),
        PreparedLander(database, leases, recorder, queue, checker, open_git, host),
        recorder,
    )
