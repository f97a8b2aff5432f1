"""The `--log-format` option of commands that run a server."""

from __future__ import annotations

import click

from deepwork.views.observability.logs import FORMATS

# Not a project setting: the log format depends on where the server runs.
log_format_option = click.option(
    "--log-format",
    type=click.Choice(FORMATS),
    default="text",
    envvar="DEEPWORK_LOG_FORMAT",
    show_default=True,
    show_envvar=True,
    help="The format of the log on standard error: text, or one JSON object per line.",
)
