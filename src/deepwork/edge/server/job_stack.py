"""The stack of active jobs of each caller, for the log line of every tool call."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

_SETTLED_NS = 100_000_000
"""Age after which a change of the folder has a time stamp that no later change shares."""


class JobStackReader:
    """Reads stacks again only after a session file has changed; without sessions it imports nothing."""

    def __init__(self, folder: Path, read: Callable[[str], list[str]]) -> None:
        self._folder, self._read = folder, read
        self._stamp = 0
        self._has_sessions = False
        self._stacks: dict[str, list[str]] = {}

    def get_stack(self, caller: str) -> list[str]:
        """Return the caller's active workflows as `job/workflow:step`, outermost first."""
        try:
            stamp = self._folder.stat().st_mtime_ns
        except OSError:  # no job has been started here
            return []
        if stamp != self._stamp:
            self._stacks = {}
            self._has_sessions = any(each.name.startswith("session_") for each in self._folder.iterdir())
            self._stamp = stamp if time.time_ns() - stamp > _SETTLED_NS else 0
        if not self._has_sessions:
            return []
        if caller not in self._stacks:
            self._stacks[caller] = self._read(caller)
        return self._stacks[caller]
