"""The composition root: every part is made and joined here, and offered over MCP."""

from __future__ import annotations

from deepwork.config import keep_fastmcp_quiet

# Before anything here imports FastMCP, which reads its settings once.
keep_fastmcp_quiet()
