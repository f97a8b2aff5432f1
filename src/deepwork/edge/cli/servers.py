"""Commands that start servers."""

from __future__ import annotations

import webbrowser
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

import click

from deepwork.edge.cli.framework.background_work import log_format_option
from deepwork.edge.cli.framework.options import CURRENT_FOLDER, load_command_settings, place_options
from deepwork.kernel.config import find_project, load_settings
from deepwork.kernel.config_options import OPTIONS, PLATFORMS
from deepwork.kernel.database.processes import find_processes_with_open
from deepwork.kernel.errors import DeepworkError
from deepwork.views.observability.calls import set_stack_source
from deepwork.views.observability.logs import start_logging

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


PORT = 8765


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
    set_stack_source(app.job_stack.get_stack)
    try:
        app.feed.get_last_seq()  # fails here rather than on the page if the store cannot be read
        run_http_server(app, None, webbrowser.open if opens else None)
    finally:
        app.close()


PROCESSES = Path("/proc")
_SERVER_COMMANDS = {"serve": serve, "dashboard": dashboard}


def list_servers(location: str) -> list[str] | None:
    """List this user's processes that serve the store, as `pid N COMMAND`; None on systems without /proc."""
    if not (PROCESSES / "self").exists():
        return None
    holders = set() if "://" in location else set(find_processes_with_open(Path(location)) or ())
    return [
        f"pid {number} {words[0]}"
        for number, words in sorted(_list_processes())
        if number in holders or _find_store_location(number, words) == location
    ]


def extract_arguments(words: list[str]) -> list[str]:
    """Return the arguments of a `deepwork` process.

    Empty if the process is another program that only has `deepwork` among its arguments, such as `timeout`.
    """
    if PurePath(words[0]).name.startswith("python"):
        words = words[1:]
        while words and words[0].startswith("-"):  # as in `python -P -m deepwork`
            words = words[1:]
    return words[1:] if words and PurePath(words[0]).name == "deepwork" else []


def _list_processes() -> Iterator[tuple[int, list[str]]]:
    for folder in PROCESSES.glob("[0-9]*"):
        try:
            command_line = (folder / "cmdline").read_bytes()
        except OSError:  # the process has ended
            continue
        words = extract_arguments(command_line.decode(errors="surrogateescape").rstrip("\0").split("\0"))
        if words and words[0] in _SERVER_COMMANDS:
            yield int(folder.name), words


def _find_store_location(number: int, words: list[str]) -> str | None:
    """Find the store of a process from its arguments, working directory and environment."""
    folder = PROCESSES / str(number)
    try:
        given = _SERVER_COMMANDS[words[0]].make_context(words[0], words[1:], resilient_parsing=True).params
        environment = (folder / "environ").read_bytes().decode(errors="surrogateescape")
        pairs = (line.partition("=") for line in environment.split("\0") if "=" in line)
        flags = {"database": given["database"], "global_store": given["global_store"] or None}
        here = (folder / "cwd").readlink()
        project = find_project(here) if given["path"] == CURRENT_FOLDER else here / given["path"]
        return load_settings(project, flags, {key: value for key, _, value in pairs}).database_location
    except (OSError, DeepworkError, click.ClickException):  # another user's process, or invalid settings
        return None
