"""Builds the services of one repository: git, snapshots, checks and who changed what."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from deepwork.kernel.config import STATE_FOLDER, Settings
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.files.private import make_state_folder
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.snapshot import SnapshotStore
from deepwork.kernel.trust import build_git_environment

if TYPE_CHECKING:
    from deepwork.delivery.provenance.verification import ProvenanceVerifier
    from deepwork.gates.checks.service import CheckService
    from deepwork.views.overview.why import WhyService
    from deepwork.work.tracking.attribution_service import AttributionService


def open_git(folder: Path) -> Git:
    """Return git for this folder."""
    return Git(folder, environment=build_git_environment(folder))


@dataclass
class TreesAssembly:
    """The services of one repository, each built on first use."""

    settings: Settings
    database: Database
    host: str
    """The machine that paths refer to."""
    _checks: dict[Path, CheckService] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def attribution(self) -> AttributionService:
        """Finds out which task changed which files."""
        from deepwork.delivery.provenance.store import LinkRecorder
        from deepwork.work.tracking.attribution_service import AttributionService
        from deepwork.work.tracking.watch_store import SnapshotService

        root = self.settings.repository_root
        snapshots = SnapshotService(self.database, self.host, root, self.open_snapshot_store)
        return AttributionService(self.database, snapshots, LinkRecorder(open_git))

    @cached_property
    def verifier(self) -> ProvenanceVerifier:
        """Verifies which tasks made the commits of this repository."""
        from deepwork.delivery.provenance.verification import ProvenanceVerifier
        from deepwork.views.overview.provenance_store import StoredWork

        return ProvenanceVerifier(self.database, open_git(self.settings.repository_root), StoredWork())

    @cached_property
    def why(self) -> WhyService:
        """Explains why code of this repository exists."""
        from deepwork.views.overview.task_lines import TaskLineFinder
        from deepwork.views.overview.why import WhyService

        git = open_git(self.settings.repository_root)
        task_lines = TaskLineFinder(self.database, self.attribution.snapshots)
        state_folder = self.settings.state_folder
        return WhyService(self.database, git, self.verifier, task_lines, state_folder, self.host)

    def get_checks(self, project: Path) -> CheckService:
        """Return the checks of a project: this one, or another one that has a plan in this store."""
        from deepwork.gates.checks.service import CheckService

        if project not in self._checks:
            folder = project / STATE_FOLDER / "checks"
            self._checks[project] = CheckService(
                self.database,
                project,
                self.host,
                folder,
                self.open_snapshot_store,
                find_authors=lambda tree, paths: self.attribution.find_authors(tree, paths),  # noqa: PLW0108 - built on first use
            )
        return self._checks[project]

    def open_snapshot_store(self, tree: Path) -> SnapshotStore:
        """Return the store of a tree's snapshots; they outlive the tree."""
        root = self.settings.repository_root
        make_state_folder(root / STATE_FOLDER)
        folder = root / STATE_FOLDER / "snapshots" / sha256(str(tree).encode()).hexdigest()[:16]
        return SnapshotStore(open_git(tree if tree.is_dir() else root), folder)
