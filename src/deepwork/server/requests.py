"""Which request is being answered, for the log."""

from __future__ import annotations

from fastmcp.server.dependencies import get_context


def request_id() -> str | None:
    """The id that the client gave its request; None outside of one."""
    try:
        context = get_context()
    except RuntimeError:  # FastMCP's word for "no request here"
        return None
    return None if context.request_context is None else str(context.request_id)
