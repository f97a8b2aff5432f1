"""`deepwork hook`: called by clients on their events; `deepwork setup --hooks` configures that."""

from __future__ import annotations

import click

from deepwork.kernel.vendors import VENDORS

_CLIENTS = [vendor.name for vendor in VENDORS if vendor.hooks]
_HELP = f"""Handle a client's hook event: read its JSON from standard input, answer in the client's format.

    \b
    EVENT is session-start, tool-use or stop; CLIENT is {", ".join(_CLIENTS[:-1])} or {_CLIENTS[-1]}.

    A failure never stops the agent: the exit code is 0 and nothing is printed. `deepwork status` shows
    what went wrong. The project is the one given by --path, or the one that contains the event's folder.
    """


# click must not parse the arguments: clients treat its exit code for bad usage (2) as "block the agent".
@click.command(
    help=_HELP, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
@click.argument(
    "words",
    nargs=-1,
    type=click.UNPROCESSED,
    metavar="EVENT --client CLIENT [--path DIR] [--global] [--db LOCATION]",
)
def hook(words: tuple[str, ...]) -> None:
    """Handle a client's hook event."""
    from deepwork.views.hooks.entrypoint import main

    main(words)
