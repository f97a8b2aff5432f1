"""The id of the current request, for the log."""

from __future__ import annotations

from fastmcp.server.dependencies import get_context


def get_request_id() -> str | None:
    """Return the id of the current MCP request; None outside a request."""
    try:
        context = get_context()
    except RuntimeError:  # FastMCP raises this outside a request
        return None
    return None if context.request_context is None else str(context.request_id)
