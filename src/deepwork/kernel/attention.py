"""Attention: something that somebody should look at, why, and what to do about it.

People find it in their inbox, which `views/overview/inbox.py` reads from a list of sources. An agent looks at
nothing by itself, so what it must hear is delivered: `kernel/notices` stores it until an answer or a hook
carries it. docs/inbox.md compares both.
"""

from __future__ import annotations

from typing import Any

from deepwork.kernel.foreign_text import truncate_to_line
from deepwork.kernel.records import dataclass
from deepwork.kernel.states import Cause

_MAX_DETAIL = 500


@dataclass(frozen=True)
class Attention:
    """Something that waits for a person; times in Unix milliseconds."""

    kind: str
    """The name of its source; pages offer actions by it."""
    id: str
    title: str
    why: Cause
    next: str | None
    """The exact command that answers it."""
    since: int
    detail: str = ""
    run_id: str | None = None
    """Its plan, tracked workflow or job session; None if it belongs to none."""
    run: dict[str, Any] | None = None
    """Id, kind and name of that, which the inbox looks up."""
    task_id: str | None = None
    task_name: str | None = None
    agent_name: str | None = None
    agent_id: str | None = None
    follows: bool = False
    """Whether it only follows from what else of its run waits: it is listed when nothing else does."""
    record: Any = None
    """What it is about, for pages that offer more than the command."""
    same: tuple[Attention, ...] = ()
    """The entries that it stands for, if several have one cause."""
    agents: int = 0
    """How many agents wait for the answer."""

    @property
    def key(self) -> str:
        """What names the entry: its kind and its id."""
        return f"{self.kind}:{self.id}"

    @property
    def members(self) -> tuple[Attention, ...]:
        """The entries that it stands for: itself, or those with its cause."""
        return self.same or (self,)


Listed = tuple[list[Attention], int]
"""The first entries of a source, and how many there are in all."""


def format_detail(text: str | None) -> str:
    """Cut a text to one line that fits into a list."""
    return truncate_to_line(text or "", _MAX_DETAIL) or ""
