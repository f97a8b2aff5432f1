"""Where one event is dealt with: the project it is about, and what is remembered of its session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from deepwork.config import Settings
from deepwork.files.state import make_state_folder
from deepwork.hooks.clients import Heard
from deepwork.hooks.learning import Record
from deepwork.hooks.memory import Memory

_MOST_TOLD = 50


@dataclass(frozen=True)
class Desk:
    """One event, in the settings of its project."""

    settings: Settings
    heard: Heard

    @property
    def memory(self) -> Memory:
        return Memory(self.settings.store_folder)

    def recalled(self, subagent: str | None = None) -> Record:
        return self.memory.recall(self.heard, self.settings.project_root, subagent)

    @property
    def knows_somebody(self) -> bool:
        """Whether anything is remembered of this session, or of the one whose helper it is."""
        return self.recalled().knows_something or self.recalled("").knows_something

    def change(self, how: Callable[[Record], Record]) -> Record:
        """Write down what is known now; parallel tools end at the same time, so one hook after the other."""
        with self.alone():
            before = self.recalled()
            after = how(before)
            if after != before:
                self.memory.keep(after)
        return after

    @contextmanager
    def alone(self) -> Iterator[None]:
        make_state_folder(self.settings.store_folder)  # there is a store, but perhaps on a server
        with self.memory.alone():
            yield


def having_told(record: Record, names: Sequence[str]) -> Record:
    """The record, with what need not be told again."""
    return replace(record, told=(*record.told, *names)[-_MOST_TOLD:])
