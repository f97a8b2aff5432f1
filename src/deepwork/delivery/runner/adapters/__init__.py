"""The kinds of agents: for each, its command line as data, and pure functions that read its stream.

What else is known about the program of a vendor is in `kernel/vendors.py`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

from deepwork.delivery.runner.adapters.base import Adapter, Launch, LaunchRequest, McpServer
from deepwork.delivery.runner.profiles import COMMAND_KIND
from deepwork.kernel.errors import InvalidInput
from deepwork.kernel.vendors import AGENT_KINDS

KINDS: Final = (*AGENT_KINDS, COMMAND_KIND)


def get_adapter(kind: str) -> Adapter:
    """Return the adapter of a kind, which is `ADAPTER` in the module of the same name."""
    if kind not in KINDS:
        raise InvalidInput(
            f"There is no kind of agent {kind[:100]!r}.", suggestion=f"Use {', '.join(KINDS)}."
        )
    adapter: Adapter = import_module(f"{__name__}.{kind}").ADAPTER
    return adapter


__all__ = ["KINDS", "Adapter", "Launch", "LaunchRequest", "McpServer", "get_adapter"]
