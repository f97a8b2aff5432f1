"""`deepwork hook`: called by clients on their events; `deepwork setup --hooks` configures that."""

from __future__ import annotations

import click


# click must not parse the arguments: clients treat its exit code for bad usage (2) as "block the agent".
@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument(
    "words",
    nargs=-1,
    type=click.UNPROCESSED,
    metavar="EVENT --client CLIENT [--path DIR] [--global] [--db LOCATION]",
)
def hook(words: tuple[str, ...]) -> None:
    """Answer a client's event: its JSON on standard input, the answer in the client's own form.

    \b
    EVENT is session-start, tool-use or stop; CLIENT is claude-code, codex or gemini.

    A failure is never the agent's: the exit code is 0 and nothing is printed. `deepwork status` shows
    what went wrong. The project is the one that the event's folder is in, or that --path names.
    """
    from deepwork.hooks.entrypoint import main

    main(words)
