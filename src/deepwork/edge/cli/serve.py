"""`deepwork serve`: run the MCP server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from deepwork.edge.cli.framework.logs import log_format_option
from deepwork.edge.cli.framework.options import load_command_settings, place_options
from deepwork.kernel.config_options import OPTIONS, PLATFORMS

_OPTION_HELP = {option.name: option.help for option in OPTIONS}


@click.command()
@place_options
@click.option("--transport", type=click.Choice(["stdio", "sse", "http"]), help=_OPTION_HELP["transport"])
@click.option("--host", metavar="ADDRESS", help=_OPTION_HELP["host"] + " Default: 127.0.0.1.")
@click.option("--port", type=int, metavar="N", help=_OPTION_HELP["port"] + " Default: 8000.")
@click.option("--socket", metavar="PATH", help=_OPTION_HELP["socket"])
@click.option("--allowed-hosts", metavar="NAMES", help=_OPTION_HELP["allowed_hosts"])
@click.option("--rate-limit", metavar="N", help=_OPTION_HELP["rate_limit"] + " Default: 50.")
@click.option("--toolsets", metavar="NAMES", help=_OPTION_HELP["toolsets"] + " Default: all.")
@click.option("--tools", metavar="NAMES", help=_OPTION_HELP["tools"])
@click.option("--exclude-tools", metavar="NAMES", help=_OPTION_HELP["exclude_tools"])
@click.option("--read-only", is_flag=True, help=_OPTION_HELP["read_only"])
@click.option("--output-schemas", is_flag=True, help=_OPTION_HELP["output_schemas"])
@click.option("--no-quality-gate", is_flag=True, help="Do not review the outputs of steps.")
@click.option("--external-runner", metavar="NAME", help=_OPTION_HELP["external_runner"])
@click.option("--platform", metavar="NAME", help=f"{_OPTION_HELP['platform']} One of {', '.join(PLATFORMS)}.")
@click.option("--log-level", metavar="LEVEL", help=_OPTION_HELP["log_level"])
@log_format_option
def serve(path: str, no_quality_gate: bool, log_format: str, **flags: Any) -> None:
    """Run the MCP server: over standard input and output, as clients start it, or on the network.

    With --socket, it answers only the agents that `deepwork run` started, at a Unix socket of this user.
    """
    from deepwork.edge.server.launch import SOCKET, run_server

    settings = load_command_settings(path, quiet=True, **flags)
    if no_quality_gate:
        settings = load_command_settings(path, quiet=True, **flags, quality_gate="false")
    run_server(replace(settings, transport=SOCKET) if flags["socket"] else settings, log_format)
