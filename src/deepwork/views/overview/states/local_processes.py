"""What this machine knows about processes: who drives a run, and whether a job's process is gone."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from deepwork.delivery.runner.attempt_files import is_driven
from deepwork.kernel.config import STATE_FOLDER, Settings
from deepwork.kernel.files.state import read_state_file
from deepwork.work.jobs.sessions.process_identity import has_exited
from deepwork.work.workspaces.models import LOCAL_HOST


@dataclass(frozen=True)
class LocalProcesses:
    """Looks at the locks and session files of this machine."""

    host: str = LOCAL_HOST
    state_folder: Path | None = None
    lease_ms: int = 90_000
    """For how long a sign of life of another machine counts."""

    def is_driven(self, id: str, repository_path: str = "") -> bool | None:
        """Return whether a process here looks after a run or an attempt; None if that is not known.

        Runs of other projects in the same store keep their locks in the repository of their plan.
        """
        folders = [self.state_folder, Path(repository_path, STATE_FOLDER) if repository_path else None]
        known = [is_driven(folder, id) for folder in folders if folder is not None]
        return next((found for found in known if found is not None), None)

    def has_session_ended(self, session_id: str) -> bool | None:
        """Return whether the process that works on a job session is gone; None if that is not known."""
        if self.state_folder is None:
            return None
        try:
            content = read_state_file(self.state_folder / "tmp" / f"session_{session_id}.json")
            owner = json.loads(content).get("owner")
        except (OSError, ValueError, AttributeError):  # of another project, or damaged
            return None
        return has_exited(owner) if isinstance(owner, str) else None


UNKNOWN_PROCESSES = LocalProcesses()
"""Knows of no process: only signs of life in the store count."""


def build_local_processes(settings: Settings) -> LocalProcesses:
    """Build it for a project."""
    return LocalProcesses(settings.machine, settings.state_folder, settings.lease_seconds * 1000)
