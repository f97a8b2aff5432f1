"""The kinds of agents: for each, its command line as data, and pure functions that read its stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from deepwork.delivery.runner.adapters.base import Adapter, Launch, LaunchRequest, McpServer
from deepwork.delivery.runner.adapters.claude import CLAUDE
from deepwork.delivery.runner.adapters.codex import CODEX
from deepwork.delivery.runner.adapters.command import CommandAdapter
from deepwork.delivery.runner.adapters.gemini import GEMINI
from deepwork.delivery.runner.adapters.opencode import OPENCODE
from deepwork.kernel.errors import InvalidInput

_ALL: Final[tuple[Adapter, ...]] = (CLAUDE, CODEX, GEMINI, OPENCODE, CommandAdapter())
ADAPTERS: Final[Mapping[str, Adapter]] = {adapter.kind: adapter for adapter in _ALL}


def get_adapter(kind: str) -> Adapter:
    """Return the adapter of a kind."""
    if kind not in ADAPTERS:
        raise InvalidInput(
            f"There is no kind of agent {kind[:100]!r}.", suggestion=f"Use {', '.join(ADAPTERS)}."
        )
    return ADAPTERS[kind]


__all__ = ["ADAPTERS", "Adapter", "Launch", "LaunchRequest", "McpServer", "get_adapter"]
