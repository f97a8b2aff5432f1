"""Creates a FastMCP server, for programs that embed deepwork; `deepwork serve` does not use it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

try:
    from fastmcp import FastMCP
except ModuleNotFoundError as error:
    raise ImportError(
        "create_server() needs FastMCP. Install it with: pip install 'deepwork[fastmcp]'", name=error.name
    ) from error

from deepwork.edge.server.application import Application
from deepwork.edge.server.launch import warn_of_settings
from deepwork.edge.server.mcp_service import McpService
from deepwork.edge.server.registration import register_service
from deepwork.kernel.config import load_settings
from deepwork.views.observability.calls import set_stack_source


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
    loaded = load_settings(project_root, flags | settings)
    warn_of_settings(loaded)
    return build_server(Application(loaded))


def _unless_default(value: int) -> int | None:
    return None if isinstance(value, _Default) else value


def build_server(app: Application) -> FastMCP:
    """Build the server of an application."""
    set_stack_source(app.job_stack.get_stack)
    service = McpService(app)
    mcp = FastMCP(
        service.name,
        service.instructions,
        version=service.version,
        on_duplicate="error",
        mask_error_details=True,
        dereference_schemas=False,
    )
    register_service(mcp, service)
    return mcp
