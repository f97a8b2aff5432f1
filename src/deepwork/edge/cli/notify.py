"""`deepwork notify`: where this user is told what waits for them and which runs ended."""

from __future__ import annotations

import sys
from typing import Any

import click

from deepwork.edge.cli.framework.applications import call_operation, name_person, open_application
from deepwork.edge.cli.framework.options import CommandGroup, json_option, place_options
from deepwork.edge.cli.framework.output import print_answer, print_listed, print_said
from deepwork.kernel.call import Call
from deepwork.kernel.errors import InvalidInput

_NONE = "No channels. Add one: deepwork notify add webhook URL"
_MAX_SECRET = 1000


@click.group(cls=CommandGroup)
def notify() -> None:
    """Be told elsewhere what waits for you and which runs ended: channels, quiet hours.

    Channels are yours, for all projects. A browser is added on the page Settings of the dashboard.
    """


@notify.command("list")
@json_option
@place_options
def list_channels(as_json: bool, **place: Any) -> None:
    """List your channels, how they are, and when they are quiet."""
    answer = _call("get_notifications", {}, place)
    if as_json:
        print_answer(answer, as_json=True)
        return
    columns = ("id", "kind", "name", "to", "told_at", "failing_since", "problem")
    rows = [{name: each.get(name) for name in columns} for each in answer["channels"]]
    print_listed(answer, "channels", rows, _NONE, as_json=False)
    print_answer(_describe_settings(answer), as_json=False)


@notify.command(context_settings={"ignore_unknown_options": True})
@click.argument("kind", type=click.Choice(["webhook", "ntfy", "command"]))
@click.argument("to", nargs=-1, required=True, metavar="URL | -- PROGRAM [ARGUMENT]...")
@click.option("--name", metavar="TEXT", help="What you call it. Default: the host or the program.")
@click.option("--token-stdin", is_flag=True, help="Read the token of an ntfy topic from standard input.")
@json_option
@place_options
def add(
    kind: str, to: tuple[str, ...], name: str | None, token_stdin: bool, as_json: bool, **place: Any
) -> None:
    """Add a channel: a webhook, a topic of ntfy, or a command that gets each message on standard input.

    Write -- before a command. The secret that signs a webhook is printed once.
    """
    given: dict[str, Any] = {} if name is None else {"name": name}
    if kind == "command":
        answer = _call("add_command", given | {"argv": list(to)}, place)
    elif len(to) > 1:
        raise click.UsageError(f"Got unexpected extra argument ({to[1]}).")
    else:
        token = {"token": _read_secret()} if token_stdin else {}
        answer = _call("add_channel", given | {"kind": kind, "url": to[0]} | token, place)
    id = answer["channel"]["id"]
    said = [f"Added {id}. Try it: deepwork notify test {id}"]
    said += [f"It signs with {answer['secret']}, which is not shown again."] if "secret" in answer else []
    print_said(answer, *said, as_json=as_json)


@notify.command()
@click.argument("id", metavar="CHANNEL")
@json_option
@place_options
def remove(id: str, as_json: bool, **place: Any) -> None:
    """Remove a channel."""
    answer = _call("remove_channel", {"channel_id": id}, place)
    print_said(answer, f"Removed {id}.", as_json=as_json)


@notify.command()
@click.argument("id", metavar="[CHANNEL]", required=False)
@json_option
@place_options
def test(id: str | None, as_json: bool, **place: Any) -> None:
    """Send a test message to a channel, or to all; exit code 1 if one did not get it."""
    answer = _call("test_channels", {"channel_id": id} if id else {}, place)
    lines = [
        f"{each['id']}  {each['name']}: {'sent' if each['is_told'] else each['problem']}"
        for each in answer["channels"]
    ]
    print_said(answer, *(lines or [_NONE]), as_json=as_json)
    sys.exit(0 if lines and all(each["is_told"] for each in answer["channels"]) else 1)


@notify.command("set")
@click.option(
    "--quiet", metavar="FROM-TO", help="Hours in which nothing is sent, such as 22:00-07:00; or off."
)
@click.option("--zone", metavar="NAME", help="The time zone of these hours. Default: that of this machine.")
@click.option("--content/--no-content", default=None, help="Whether titles and names are sent. Default: no.")
@click.option(
    "--delay", type=click.IntRange(min=0), metavar="SECONDS", help="How long something waits first."
)
@click.option("--link", metavar="URL", help="The address of your dashboard, for links.")
@click.option(
    "--push-host", "push_hosts", multiple=True, metavar="HOST", help="A push service to allow, too."
)
@json_option
@place_options
def set_options(
    quiet: str | None, zone: str | None, content: bool | None, delay: int | None, link: str | None,
    push_hosts: tuple[str, ...], as_json: bool, **place: Any,
) -> None:  # fmt: skip
    """Set when and what your channels are told."""
    given = {
        "zone": zone,
        "says_content": content,
        "delay_seconds": delay,
        "link": link,
        "push_hosts": list(push_hosts) or None,
        **_parse_quiet(quiet),
    }
    chosen = {name: value for name, value in given.items() if value is not None}
    answer = _call("set_notifications", chosen, place)
    print_answer(answer if as_json else _describe_settings(answer), as_json=as_json)


def _parse_quiet(quiet: str | None) -> dict[str, str]:
    if quiet is None:
        return {}
    if quiet == "off":
        return {"quiet_begins": "", "quiet_ends": ""}
    begins, dash, ends = quiet.partition("-")
    if not dash:
        raise click.BadParameter("write FROM-TO, such as 22:00-07:00, or off.", param_hint="--quiet")
    return {"quiet_begins": begins.strip(), "quiet_ends": ends.strip()}


def _describe_settings(answer: dict[str, Any]) -> dict[str, Any]:
    quiet = answer.get("quiet")
    hours = f"{quiet['begins']} to {quiet['ends']} {quiet.get('zone', '')}".strip() if quiet else "none"
    return {
        "quiet_hours": hours,
        "messages": "with titles and names" if answer["says_content"] else "without titles and names",
        "told_after": f"{answer['delay_seconds']} seconds",
        "link": answer.get("link") or "none: deepwork notify set --link URL",
    }


def _read_secret() -> str:
    text = sys.stdin.readline(_MAX_SECRET).strip()
    if not text:
        raise InvalidInput("Standard input has no token.")
    return text


def _call(tool: str, given: dict[str, Any], place: dict[str, Any]) -> dict[str, Any]:
    rest = dict(place)
    with open_application(rest.pop("path"), rest, reads=True, quiet=True) as app:
        call = Call(name_person(), tool, carries_notices=False)
        answer: dict[str, Any] = call_operation(app, tool, given, call)
    return answer
