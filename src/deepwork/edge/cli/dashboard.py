"""`deepwork dashboard`: serve the dashboard on its own, next to servers that clients start."""

from __future__ import annotations

import webbrowser
from typing import Any

import click

from deepwork.edge.cli.framework.logs import log_format_option
from deepwork.edge.cli.framework.options import load_command_settings, place_options
from deepwork.kernel.config_options import OPTIONS
from deepwork.views.observability.calls import set_stack_source
from deepwork.views.observability.logs import start_logging

PORT = 8765
_OPTION_HELP = {option.name: option.help for option in OPTIONS}


@click.command()
@place_options
@click.option("--port", type=int, default=PORT, show_default=True, metavar="N", help=_OPTION_HELP["port"])
@click.option("--host", metavar="ADDRESS", help="The address to listen on. Default: 127.0.0.1.")
@click.option("--allowed-hosts", metavar="NAMES", help=_OPTION_HELP["allowed_hosts"])
@click.option("--read-only", is_flag=True, help="Show everything, change nothing.")
@click.option("--open", "opens", is_flag=True, help="Open it in a browser.")
@click.option("--log-level", metavar="LEVEL", help=_OPTION_HELP["log_level"])
@log_format_option
def dashboard(path: str, opens: bool, log_format: str, **flags: Any) -> None:
    """Serve the dashboard: see in a browser what agents do, and answer those that wait for you.

    It uses the same store as the project's servers, however they are started. Ctrl-C stops it.
    """
    from deepwork.edge.server.application import Application
    from deepwork.edge.server.http.serving import run_http_server
    from deepwork.edge.server.launch import warn_of_settings

    settings = load_command_settings(path, quiet=True, **flags)
    start_logging(settings.log_level, log_format)
    warn_of_settings(settings)
    app = Application(settings)
    set_stack_source(app.describe_stack)
    try:
        with app.database.reading():  # fail here rather than on the page if the store cannot be read
            pass
        run_http_server(app, None, webbrowser.open if opens else None)
    finally:
        app.close()
