"""`deepwork audit`: list the audit log, verify its hash chain, and print anchors."""

from __future__ import annotations

import re
import sys
from datetime import datetime, timedelta
from typing import Any

import click

from deepwork.edge.cli.framework.applications import call_operation, open_application
from deepwork.edge.cli.framework.options import CommandGroup, json_option, place_options, refuse_misplaced
from deepwork.edge.cli.framework.output import print_answer
from deepwork.edge.cli.framework.progress import ProgressBar
from deepwork.edge.cli.run.rendering import name_agent
from deepwork.gates.access.models import parse_anchor
from deepwork.kernel.call import Call
from deepwork.kernel.errors import StorageError

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


class TimestampParam(click.ParamType[int]):
    """A click parameter for points in time: a date, a time or an age such as `2h`, as Unix milliseconds."""

    name = "when"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if ago := re.fullmatch(r"(\d{1,6})([smhd])", str(value)):
            then = datetime.now().astimezone() - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        else:
            try:
                then = datetime.fromisoformat(str(value)).astimezone()
            except ValueError:
                self.fail(
                    f"{value!r} is not a point in time: use 2h, 7d, 2026-05-01 or 2026-05-01T12:00.",
                    param,
                    ctx,
                )
        return int(then.timestamp() * 1000)


@click.group(cls=CommandGroup, invoke_without_command=True)
@click.option("--account", metavar="NAME", help="Only calls with the token of this name, or `local`.")
@click.option("--tool", metavar="NAME", help="Only calls of this tool.")
@click.option(
    "--since", type=TimestampParam(), metavar="WHEN", help="Only calls since then: 2h, 7d or a date."
)
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=50,
    metavar="N",
    help="Maximum number of calls. Default: 50.",
)
@json_option
@place_options
@click.pass_context
def audit(
    context: click.Context,
    /,
    account: str | None,
    tool: str | None,
    since: int | None,
    limit: int,
    as_json: bool,
    **place: Any,
) -> None:
    """List the audit log, newest first: calls that may have changed something."""
    if context.invoked_subcommand is not None:
        refuse_misplaced(context)
        return
    given = {"account": account, "tool": tool, "since": since, "limit": limit}
    with open_application(place.pop("path"), place, reads=True, quiet=as_json) as app:
        rows = [_name_actor(call) for call in call_operation(app, "list_audit_calls", given)["calls"]]
    if as_json:
        print_answer({"calls": rows}, as_json=True)
    else:
        print_answer(
            {"calls": [_shorten_row(row) for row in rows]} if rows else "No calls are recorded.",
            as_json=False,
        )


@audit.command()
@json_option
@place_options
def anchor(as_json: bool, **place: Any) -> None:
    """Print an anchor: the end of the log now, signed. Keep it elsewhere, for `verify --expect`."""
    with open_application(place.pop("path"), place, reads=True, quiet=as_json) as app:
        answer = call_operation(app, "get_audit_anchor", {})
    if as_json:
        print_answer(answer, as_json=True)
        return
    click.echo(answer["anchor"])
    click.echo("Keep it where nobody who can write the store can change it.", err=True)


class AnchorParam(click.ParamType[str]):
    """A click parameter for anchors."""

    name = "anchor"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if parse_anchor(str(value)) is None:
            self.fail("This is not an anchor: pass what `deepwork audit anchor` printed.", param, ctx)
        return str(value)


@audit.command()
@click.option(
    "--expect",
    type=AnchorParam(),
    metavar="ANCHOR",
    help="Also fail if the log was cut off since this anchor.",
)
@json_option
@place_options
def verify(expect: str | None, as_json: bool, **place: Any) -> None:
    """Verify the hash chain from the first entry to the last; exit code 1 if it is broken.

    Entries that were removed at the end are found only with --expect and an anchor. It also compares
    approvals, waived and passed checks, tokens, and enrolled passphrases and passkeys with what deepwork
    wrote, and with the calls that made them.
    """
    try:
        with (
            open_application(place.pop("path"), place, reads=True, quiet=as_json) as app,
            ProgressBar("Verifying", quiet=as_json) as progress,
        ):
            call = Call(tool="verify_audit_log", report_progress=progress.follow)
            answer = call_operation(app, call.tool, {"expect": expect}, call)
    except StorageError as error:
        if error.recoverable:  # the database cannot be reached now, which says nothing about the chain
            raise
        # The chain's head or the whole table is missing.
        problem = f"the audit log cannot be read: {error.message}"
        answer = {"intact": False, "rows": 0, "chain": "", "problem": problem}
    print_answer(answer, as_json=as_json)
    sys.exit(0 if answer["intact"] else 1)


def _name_actor(call: dict[str, Any]) -> dict[str, Any]:
    """Give the call of an agent under a run the name by which people know it."""
    profile, task = call.pop("profile", None), call.pop("task", None)
    return {**call, "actor": f"{name_agent(profile)} · {task}"} if profile else call


def _shorten_row(row: dict[str, Any]) -> dict[str, Any]:
    """Shorten a row for people: the ids that it was about, without the digests."""
    about = [f"{name}={value}" if value else name for name, value in row["arguments"].items()]
    kept = {key: row[key] for key in ("seq", "at", "account", "caller", "tool", "outcome")}
    return {**kept, "caller": row.get("actor", row["caller"]), "arguments": ", ".join(about)}
