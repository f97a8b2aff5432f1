"""What the runner needs from the server, which it must not import."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol


class ToolCaller(Protocol):
    """Calls a tool as every interface does: with its checks, its audit entry and its idempotency key."""

    def __call__(
        self, tool: str, arguments: Mapping[str, Any], *, key: str | None = None
    ) -> Mapping[str, Any]:
        """Return the answer; raises DeepworkError."""


class AgentDoor(Protocol):
    """Answers the agents that the runner starts."""

    def open(self) -> Path:
        """Answer agents from now on, if that was not begun before; return the path of the socket."""

    def close(self) -> None:
        """Answer what was asked, and nothing more: another runner may take over."""
