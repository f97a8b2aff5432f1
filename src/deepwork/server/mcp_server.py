"""The MCP server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from fastmcp import FastMCP

from deepwork import __version__
from deepwork.config import load_settings
from deepwork.server.application import Application
from deepwork.server.instructions import instructions
from deepwork.server.prompts import expose_prompts
from deepwork.server.registration import expose
from deepwork.server.resources import expose_resources
from deepwork.server.toolsets import chosen


def create_server(
    project_root: Path | str,
    enable_quality_gate: bool = True,
    quality_gate_timeout: int = 120,
    quality_gate_max_attempts: int = 3,
    external_runner: str | None = None,
    **settings: Any,
) -> FastMCP:
    """The server for a project; further settings by the names of their flags (toolsets, database, …).

    What is left at its default may still be set by the environment or the project's config.yml.
    """
    flags = {
        "quality_gate": None if enable_quality_gate else False,
        "quality_gate_timeout": None if quality_gate_timeout == 120 else quality_gate_timeout,
        "quality_gate_max_attempts": None if quality_gate_max_attempts == 3 else quality_gate_max_attempts,
        "external_runner": external_runner,
    }
    return server_of(Application(load_settings(project_root, flags | settings)))


def server_of(app: Application) -> FastMCP:
    """The server over parts that are already joined."""
    tools = chosen(app.registry, app.settings)
    if app.settings.read_only:
        # Here they change nothing, so whoever may read may call them, and there is nothing to record.
        tools = {name: replace(spec, read_only=True) for name, spec in tools.items()}
    mcp = FastMCP(
        "deepwork",
        instructions({spec.toolset for spec in tools.values()}),
        version=__version__,
        on_duplicate="error",
        mask_error_details=True,
        dereference_schemas=False,
    )
    expose(mcp, app, tools)
    expose_prompts(mcp, app, tools)
    expose_resources(mcp, app, tools)
    return mcp
