"""The composition root: builds all services and offers them over MCP and HTTP."""

from __future__ import annotations

from deepwork.kernel.environment import silence_fastmcp

# Before anything here imports FastMCP, which reads its settings once.
silence_fastmcp()
