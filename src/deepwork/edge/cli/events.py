"""`deepwork events`: print events as they are stored."""

from __future__ import annotations

import time
from dataclasses import asdict

import click

from deepwork.edge.cli.framework.applications import is_store_missing, open_application
from deepwork.edge.cli.framework.id_resolution import resolve_id
from deepwork.edge.cli.framework.options import CommandGroup, load_command_settings, place_options
from deepwork.edge.cli.framework.output import to_printable
from deepwork.kernel.config import Settings
from deepwork.kernel.events.feed import ResyncRequired
from deepwork.kernel.events.log import Event
from deepwork.kernel.foreign_text import dump_json

_WAIT_SECONDS = 0.5


@click.group(cls=CommandGroup)
def events() -> None:
    """Follow events as they happen."""


@events.command()
@place_options
@click.option(
    "--since", type=click.IntRange(min=0), metavar="N", help="Start after event N. Default: new events only."
)
@click.option("--workflow-id", metavar="ID", help="Only events of this workflow, also by its name.")
@click.option("--no-follow", is_flag=True, help="Print stored events, then stop.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def tail(
    path: str,
    database: str | None,
    global_store: bool,
    since: int | None,
    workflow_id: str | None,
    no_follow: bool,
    as_json: bool,
) -> None:
    """Print events of all processes in this project as they are stored; reconnects after an outage."""
    place = {"database": database, "global_store": global_store}
    if not no_follow and _wait_for_store(load_command_settings(path, quiet=True, **place)):
        since = since or 0  # all of its events are new
    with open_application(path, place, reads=True, quiet=as_json) as app:
        workflow_id = resolve_id(app.database, "work", workflow_id) if workflow_id else None
        feed = app.feed
        start = feed.get_last_seq() if since is None else since
        stream = (
            feed.iterate_stored(start, workflow_id=workflow_id)
            if no_follow
            else feed.follow(start, workflow_id=workflow_id, notice=_print_notice)
        )
        for event in stream:
            click.echo(dump_json(_to_dict(event)) if as_json else _format_line(event))


def _wait_for_store(settings: Settings) -> bool:
    """Wait until another process has created the store; return whether it was missing."""
    if not is_store_missing(settings):
        return False
    _print_notice("There is no store yet; waiting for the server or command that creates it.")
    while is_store_missing(settings):
        time.sleep(_WAIT_SECONDS)
    return True


def _print_notice(text: str) -> None:
    """Print a notice to standard error, so that an interruption of the stream is explained."""
    click.echo(f"({text})", err=True)


def _to_dict(event: Event | ResyncRequired) -> dict[str, object]:
    if isinstance(event, ResyncRequired):
        return {"type": "resync_required", **asdict(event)}
    return asdict(event)


def _format_line(event: Event | ResyncRequired) -> str:
    if isinstance(event, ResyncRequired):
        return f"(events after {event.since} are no longer stored; continuing after {event.resume_at})"
    what = event.data.get("name") or event.data.get("subject") or event.data.get("id") or ""
    return f"{event.seq:>6}  {event.ts}  {event.type:<20}  {to_printable(what)}"
