"""Builds the services of one repository: git, snapshots, checks and who changed what."""

from __future__ import annotations

from dataclasses import field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from deepwork.kernel.config import STATE_FOLDER, Settings
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.errors import GitError, NotAllowed
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.merge_commits import find_own_branch_tip
from deepwork.kernel.git.snapshot import open_snapshot_store
from deepwork.kernel.records import dataclass
from deepwork.kernel.user_settings import build_git_environment
from deepwork.kernel.values import FoundOnFirstUse

if TYPE_CHECKING:
    from deepwork.delivery.provenance.verification import ProvenanceVerifier
    from deepwork.gates.checks.service import CheckService
    from deepwork.views.overview.why import WhyService
    from deepwork.work.tracking.attribution_service import AttributionService


def open_git(folder: Path) -> Git:
    """Return git for this folder."""
    return Git(folder, environment=build_git_environment(folder))


class OwnBranches:
    """Knows the branches of repositories on this machine."""

    def has_branch(self, repository_path: str, branch: str) -> bool:
        """Return whether the repository has such a branch."""
        try:
            return find_own_branch_tip(open_git(Path(repository_path)), branch) is not None
        except NotAllowed:  # it only stands for another one
            return True
        except GitError:  # no repository: what needs one says so
            return False


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
        snapshots = SnapshotService(self.database, self.host, root, partial(open_snapshot_store, root))
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
                partial(open_snapshot_store, self.settings.repository_root),
                find_authors=FoundOnFirstUse(lambda: self.attribution.find_authors),
            )
        return self._checks[project]
