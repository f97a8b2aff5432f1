"""What an agent's stream says, in the same words for every vendor.

The frequent ones are named tuples: building one takes a fifth of the time of a frozen dataclass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

SESSION_TOTAL: Final = ""
"""Key of a total of the vendor's session: it goes on counting when the session is resumed."""
START_TOTAL: Final = "start"
"""Key of a total of one start; `start/…` is that of a part of it, such as a model."""


class SessionStarted(NamedTuple):
    """The vendor's session is known: a resume names it."""

    session_id: str
    model: str | None = None


class ToolStarted(NamedTuple):
    """The agent uses a tool; `detail` is its command, path or query."""

    id: str
    name: str
    detail: str = ""


class ToolEnded(NamedTuple):
    """A tool answered."""

    id: str


class Said(NamedTuple):
    """The agent wrote text; the last one is its outcome."""

    text: str
    is_delta: bool = False
    """Whether it continues the text before."""


class UsageReported(NamedTuple):
    """What the model used. A key counts once, with its highest figures."""

    key: str
    input: int
    """Without those from the cache."""
    cached: int
    output: int
    usd_micros: int | None = None
    model: str | None = None
    is_total: bool = False
    """Whether the figures are all of a session or start, so that the difference to those before counts."""


@dataclass(frozen=True)
class LimitReached:
    """The vendor refuses work until a time, in Unix milliseconds; None when it did not say."""

    resets_at: int | None
    message: str
    scope: str = ""
    """Which limit, such as `five_hour`."""


@dataclass(frozen=True)
class TransientFailure:
    """An overload or a broken connection: the same session may go on."""

    message: str


@dataclass(frozen=True)
class Ended:
    """The vendor's own result. It says nothing about whether the task is done."""

    is_error: bool
    text: str = ""
    reason: str = ""


Signal = (
    SessionStarted | ToolStarted | ToolEnded | Said | UsageReported | LimitReached | TransientFailure | Ended
)
