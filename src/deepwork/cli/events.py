"""`deepwork events`: print events as they are stored."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from deepwork.cli.framework.command_groups import CommandGroup
from deepwork.cli.framework.options import load_command_settings, place_options
from deepwork.cli.framework.output import to_printable
from deepwork.events.feed import ResyncRequired
from deepwork.events.log import Event
from deepwork.server.application import Application


@click.group(cls=CommandGroup)
def events() -> None:
    """Follow events as they happen."""


@events.command()
@place_options
@click.option(
    "--since", type=click.IntRange(min=0), metavar="N", help="Start after event N. Default: new events only."
)
@click.option("--workflow-id", metavar="ID", help="Only events of this workflow.")
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
    app = Application(load_command_settings(path, database=database, global_store=global_store))
    feed = app.feed
    start = feed.get_last_seq() if since is None else since
    stream = (
        feed.iterate_stored(start, workflow_id=workflow_id)
        if no_follow
        else feed.follow(start, workflow_id=workflow_id, notice=_print_notice)
    )
    try:
        for event in stream:
            click.echo(json.dumps(_to_dict(event), ensure_ascii=False) if as_json else _format_line(event))
    finally:
        app.close()


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
