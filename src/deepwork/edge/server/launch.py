"""Runs the MCP server, as fast as possible where a client starts it over standard streams.

A client waits for every start, so plain command lines are read here: importing click takes a third of it.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepwork.edge.server.application import Application
from deepwork.edge.server.mcp_service import McpService
from deepwork.kernel.config import Settings, find_project, find_unknown_keys, load_settings
from deepwork.kernel.environment import choose_user_file, get_bridge_file
from deepwork.kernel.errors import DeepworkError
from deepwork.kernel.files.private import find_stamp
from deepwork.kernel.protocol.handler import MessageHandler, get_request_id
from deepwork.views.observability.calls import set_stack_source, start_tracing
from deepwork.views.observability.logs import set_request_id_source, start_logging

if TYPE_CHECKING:
    from deepwork.edge.server.notifying import Notifier
    from deepwork.views.hooks.listener import HookListener

_VALUES = {
    f"--{name.replace('_', '-')}": name
    for name in (
        "path",
        "transport",
        "toolsets",
        "tools",
        "exclude_tools",
        "external_runner",
        "platform",
        "log_level",
    )
}
SOCKET = "socket"
"""The transport of `serve --socket`; a socket in the environment is for `run`, and changes no server."""
_SWITCHES: dict[str, tuple[str, Any]] = {
    "--read-only": ("read_only", True),
    "--output-schemas": ("output_schemas", True),
    "--no-quality-gate": ("quality_gate", "false"),
    "--global": ("global_store", True),
}


def plan_launch(words: Sequence[str]) -> Callable[[], None] | None:
    """Return what `deepwork serve` with these arguments does; None if click should read them.

    Everything unusual is left to click: other flags, other transports, mistakes.
    """
    flags = parse_flags(words)
    if flags is None or sys.stdout is None or os.environ.get("DEEPWORK_LOG_FORMAT"):
        return None
    path = flags.pop("path", None)
    try:
        settings = load_settings(Path(path) if path else find_project(Path.cwd()), flags)
    except (DeepworkError, OSError):
        return None
    return (lambda: run_server(settings, "text")) if settings.transport == "stdio" else None


def parse_flags(words: Sequence[str]) -> dict[str, Any] | None:
    """Parse flags of the form `--name value`; None if there is anything else."""
    flags: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        if word in _SWITCHES:
            name, value = _SWITCHES[word]
        elif word in _VALUES:
            name, value = _VALUES[word], next(rest, "-")
        else:
            return None
        if name in flags or (isinstance(value, str) and value.startswith("-")):
            return None
        flags[name] = value
    return flags if flags.get("transport", "stdio") == "stdio" else None


def run_server(settings: Settings, log_format: str) -> None:
    """Run the server until its client leaves or a signal arrives.

    An agent under a run gets its bridge instead, also if its client starts us by the project's settings.
    """
    if settings.transport == "stdio" and (file := get_bridge_file()):
        from deepwork.delivery.runner.bridge import main as pass_messages  # noqa: PLC0415 - only for agents

        pass_messages([file])
        return
    start_logging(settings.log_level, log_format)
    warn_of_settings(settings)
    set_request_id_source(get_request_id)
    end_tracing = start_tracing(os.environ)
    app = Application(settings)
    set_stack_source(app.job_stack.get_stack)
    listener, notifier = None, _start_notifier(app)
    try:
        if "://" in settings.database_location:
            app.database  # noqa: B018 - a missing driver is reported now, not by the first call
            listener = _start_hook_listener(settings)
        _serve(app)
    finally:
        if listener is not None:
            listener.close()
        if notifier is not None:
            notifier.stop()
        app.close()
        end_tracing()


def warn_of_settings(settings: Settings) -> None:
    """Log which keys of config.yml have no effect."""
    log = logging.getLogger("deepwork")
    for key in find_unknown_keys(settings.project_root):
        log.warning("config.yml has an unknown key %r.", key)
    if settings.untrusted_keys:
        from deepwork.kernel.user_settings import render_untrusted_line  # noqa: PLC0415 - few projects have such keys

        log.warning("%s", render_untrusted_line(settings.untrusted_keys))


def _start_hook_listener(settings: Settings) -> HookListener:
    """Answer hooks: opening a store on PostgreSQL takes them longer than asking us."""
    from deepwork.views.hooks.listener import HookListener  # noqa: PLC0415 - most stores are files

    listener = HookListener(settings)
    listener.start()
    return listener


def _start_notifier(app: Application) -> Notifier | None:
    """Notify people over stdio, too, if this user has channels; a server over HTTP does it by itself."""
    if app.settings.transport != "stdio" or app.settings.read_only:
        return None
    if find_stamp(str(choose_user_file("notifications.json"))) is None:
        return None
    from deepwork.edge.server.notifying import Notifier  # noqa: PLC0415 - most users have no channel

    return Notifier(app).start()


def _serve(app: Application) -> None:
    if app.settings.transport == SOCKET:
        from deepwork.edge.server.agent_socket import serve_socket  # noqa: PLC0415 - hardly ever needed

        serve_socket(app, Path(app.settings.socket))
        return
    handler = MessageHandler(McpService(app))
    if app.settings.transport == "stdio":
        from deepwork.kernel.protocol.transports.stdio import serve_stdio  # noqa: PLC0415 - not over HTTP

        serve_stdio(handler)
    else:
        from deepwork.edge.server.http.serving import run_http_server  # noqa: PLC0415 - not over stdio

        run_http_server(app, handler)
