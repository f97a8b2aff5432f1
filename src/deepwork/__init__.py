"""deepwork: durable, reviewable, visible workflows for AI agents, over MCP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deepwork.edge.server.mcp_server import create_server

__version__ = "0.3.0"
__all__ = ["__version__", "create_server"]


def __getattr__(name: str) -> Any:
    # The server brings FastMCP, a second of imports that no other command should pay for.
    if name == "create_server":
        from deepwork.edge.server.mcp_server import create_server

        return create_server
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
