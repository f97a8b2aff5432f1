"""What the runner needs from the server, which it must not import."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class ToolCaller(Protocol):
    """Calls a tool as every interface does: with its checks, its audit entry and its idempotency key."""

    def __call__(
        self, tool: str, arguments: Mapping[str, Any], *, key: str | None = None
    ) -> Mapping[str, Any]:
        """Return the answer; raises DeepworkError."""
