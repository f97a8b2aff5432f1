"""Creates the MCP server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from fastmcp import FastMCP

from deepwork import __version__
from deepwork.config import load_settings
from deepwork.server.application import Application
from deepwork.server.instructions import build_instructions
from deepwork.server.prompts import register_prompts
from deepwork.server.registration import register_tools
from deepwork.server.registry import ToolSpec
from deepwork.server.resources import register_resources
from deepwork.server.toolsets import select_tools


class _Default(int):
    """A default value: equal to the number, and still different from a caller who passes that number."""


_DEFAULT_TIMEOUT = _Default(120)
_DEFAULT_ATTEMPTS = _Default(3)


def create_server(
    project_root: Path | str,
    enable_quality_gate: bool = True,
    quality_gate_timeout: int = _DEFAULT_TIMEOUT,
    quality_gate_max_attempts: int = _DEFAULT_ATTEMPTS,
    external_runner: str | None = None,
    **settings: Any,
) -> FastMCP:
    """Create the server for a project; further settings by the names of their flags (toolsets, …).

    An argument that is given wins over the environment and the project's config.yml.
    """
    flags = {
        "quality_gate": None if enable_quality_gate else False,
        "quality_gate_timeout": _unless_default(quality_gate_timeout),
        "quality_gate_max_attempts": _unless_default(quality_gate_max_attempts),
        "external_runner": external_runner,
    }
    return build_server(Application(load_settings(project_root, flags | settings)))


def _unless_default(value: int) -> int | None:
    return None if isinstance(value, _Default) else value


def _to_read_only(spec: ToolSpec) -> ToolSpec:
    """In read-only mode no tool changes anything: the scope `read` suffices and no audit record is needed."""
    if spec.read_only:
        return spec
    return replace(spec, declaration=replace(spec.declaration, scope="read", when_false=None, read_only=True))


def build_server(app: Application) -> FastMCP:
    """Build the server of an application."""
    tools = select_tools(app.registry, app.settings)
    if app.settings.read_only:
        tools = {name: _to_read_only(spec) for name, spec in tools.items()}
    mcp = FastMCP(
        "deepwork",
        build_instructions({spec.toolset for spec in tools.values()}),
        version=__version__,
        on_duplicate="error",
        mask_error_details=True,
        dereference_schemas=False,
    )
    register_tools(mcp, app, tools)
    register_prompts(mcp, app, tools)
    register_resources(mcp, app, tools)
    return mcp
