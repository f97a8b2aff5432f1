"""Context of one hook event: the settings of its project and the record of its session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from deepwork.kernel.config import Settings
from deepwork.kernel.files.state import make_state_folder
from deepwork.views.hooks.identity import SessionRecord
from deepwork.views.hooks.protocol import HookEvent
from deepwork.views.hooks.session_memory import SessionMemory

_MAX_DELIVERED_NOTICES = 50


@dataclass(frozen=True)
class HookContext:
    """One event together with the settings of its project."""

    settings: Settings
    event: HookEvent
    is_own_only: bool = False
    """Whether the answer may tell only of the session's own work, not of that of the project."""

    @property
    def memory(self) -> SessionMemory:
        return SessionMemory(self.settings.store_folder)

    def load_record(self, subagent: str | None = None) -> SessionRecord:
        """Load the record of the event's session; pass "" for the main session of a subagent."""
        return self.memory.load(self.event, self.settings.project_root, subagent)

    @property
    def has_known_session(self) -> bool:
        """Whether anything is recorded about this session or about the main session of a subagent."""
        return self.load_record().has_identity or self.load_record("").has_identity

    def update_record(self, update: Callable[[SessionRecord], SessionRecord]) -> SessionRecord:
        """Apply `update` to the stored record and save it.

        Parallel tools end at the same time, so hooks take turns under a lock.
        """
        with self.lock():
            before = self.load_record()
            after = update(before)
            if after != before:
                self.memory.save(after)
        return after

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Let one hook at a time read and write the session's record."""
        make_state_folder(self.settings.store_folder)  # missing if the database is on a server
        with self.memory.lock():
            yield


def add_delivered(record: SessionRecord, names: Sequence[str]) -> SessionRecord:
    """Return the record with these notices marked as delivered."""
    return replace(record, told=(*record.told, *names)[-_MAX_DELIVERED_NOTICES:])
