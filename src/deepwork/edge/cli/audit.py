"""`deepwork audit`: list the audit log, verify its hash chain, and print anchors."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import click

from deepwork.delivery.runner.store import AttemptStore
from deepwork.edge.cli.framework.applications import open_application
from deepwork.edge.cli.framework.command_groups import CommandGroup
from deepwork.edge.cli.framework.options import json_option, place_options, refuse_misplaced
from deepwork.edge.cli.framework.output import print_answer
from deepwork.edge.cli.framework.progress import ProgressBar
from deepwork.edge.cli.run_amounts import name_agent
from deepwork.gates.access.audit_chain import Anchor, ChainVerdict, create_anchor, parse_anchor
from deepwork.gates.access.models import ChainedEntry
from deepwork.gates.access.store import AuditStore
from deepwork.gates.access.verification import verify_log
from deepwork.kernel.call import AGENT_PREFIX
from deepwork.kernel.database.transaction import Transaction
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
    with _open_transaction(place, as_json=as_json) as tx:
        links = AuditStore(tx).list_newest(account=account, tool=tool, since=since, limit=limit)
        agents = {link.entry.account for link in links if link.entry.caller.startswith(AGENT_PREFIX)}
        work = AttemptStore(tx).list_work(agents) if agents else {}
    names = {id: f"{name_agent(profile)} · {task}" for id, (profile, task) in work.items()}
    rows = [_to_dict(link, names) for link in links]
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
    with _open_transaction(place, as_json=as_json) as tx:
        head, key = AuditStore(tx).get_head(), AuditStore(tx).get_key()
    text = create_anchor(head, key)
    if as_json:
        print_answer(
            {"anchor": text, "store": key.store_id, "rows": head.seq, "chain": head.chain}, as_json=True
        )
        return
    click.echo(text)
    click.echo("Keep it where nobody who can write the store can change it.", err=True)


class AnchorParam(click.ParamType[Anchor]):
    """A click parameter for anchors."""

    name = "anchor"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Anchor:
        return parse_anchor(str(value)) or self.fail(
            "This is not an anchor: pass what `deepwork audit anchor` printed.", param, ctx
        )


@audit.command()
@click.option(
    "--expect",
    type=AnchorParam(),
    metavar="ANCHOR",
    help="Also fail if the log was cut off since this anchor.",
)
@json_option
@place_options
def verify(expect: Anchor | None, as_json: bool, **place: Any) -> None:
    """Verify the hash chain from the first entry to the last; exit code 1 if it is broken.

    Entries that were removed at the end are found only with --expect and an anchor. It also compares
    approvals, waived and passed checks, tokens, and enrolled passphrases and passkeys with what deepwork
    wrote, and with the calls that made them.
    """
    try:
        with (
            _open_transaction(place, as_json=as_json) as tx,
            ProgressBar("Verifying", quiet=as_json) as progress,
        ):
            verdict = verify_log(tx, expect, partial(progress.report, "Verifying"))
    except StorageError as error:
        if error.recoverable:  # the database cannot be reached now, which says nothing about the chain
            raise
        # The chain's head or the whole table is missing.
        verdict = ChainVerdict(0, "", problem=f"the audit log cannot be read: {error.message}")
    found = {key: value for key, value in asdict(verdict).items() if value is not None}
    print_answer({"intact": verdict.problem is None, **found}, as_json=as_json)
    sys.exit(0 if verdict.problem is None else 1)


@contextmanager
def _open_transaction(place: dict[str, Any], *, as_json: bool) -> Iterator[Transaction]:
    with (
        open_application(place.pop("path"), place, reads=True, quiet=as_json) as app,
        app.database.reading() as tx,
    ):
        yield tx


def _to_dict(link: ChainedEntry, names: Mapping[str, str]) -> dict[str, Any]:
    """Build a row; of an agent under a run it also has the name by which people know it."""
    entry = asdict(link.entry)
    is_agent = link.entry.caller.startswith(AGENT_PREFIX) and link.entry.account in names
    actor = {"actor": names[link.entry.account]} if is_agent else {}
    arguments = json.loads(entry["arguments"])
    return {"seq": link.seq, **entry, **actor, "arguments": arguments, "chain": link.chain}


def _shorten_row(row: dict[str, Any]) -> dict[str, Any]:
    """Shorten a row for people: the ids that it was about, without the digests."""
    about = [f"{name}={value}" if value else name for name, value in row["arguments"].items()]
    kept = {key: row[key] for key in ("seq", "at", "account", "caller", "tool", "outcome")}
    return {**kept, "caller": row.get("actor", row["caller"]), "arguments": ", ".join(about)}
