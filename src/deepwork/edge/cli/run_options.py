"""The options of `deepwork run`, and what they ask for."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from deepwork.edge.cli.framework.options import Function

if TYPE_CHECKING:
    from deepwork.delivery.runner.models import RunRequest

_CLOCK_PATTERN = re.compile(r"(\d{1,2}):(\d\d)")
_LAST_HOUR, _LAST_MINUTE = 23, 59


class MomentParam(click.ParamType[int]):
    """A time of day, which is in the future, or a date with a time; its value is in Unix milliseconds."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if not isinstance(value, str):
            return int(value)
        try:
            return parse_moment(value, datetime.now())  # noqa: DTZ005 - this machine's clock is meant
        except ValueError as error:
            self.fail(str(error), param, ctx)


def parse_moment(text: str, now: datetime) -> int:
    """Return the next moment at which this machine's clock shows a time, or a date with a time.

    Raises ValueError for anything else. A date may have passed: `is_over` tells.
    """
    if clock := _CLOCK_PATTERN.fullmatch(text.strip()):
        hour, minute = int(clock[1]), int(clock[2])
        if hour > _LAST_HOUR or minute > _LAST_MINUTE:
            raise ValueError(f"{text!r} is not a time of day; the last one is 23:59.")
        today = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
        return _to_milliseconds(today if today > now else today + timedelta(days=1))
    try:
        return _to_milliseconds(datetime.fromisoformat(text.strip()))
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is not a time: write 07:00, or 2026-11-18T07:00.") from None


def _to_milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def is_over(request: RunRequest) -> bool:
    """Return whether the time of a run has passed before it began."""
    until = request.options.get("until")
    return until is not None and until <= _to_milliseconds(datetime.now())  # noqa: DTZ005


_POSITIVE = click.FloatRange(min=0, min_open=True)
_OPTIONS = (
    click.option(
        "--agents",
        "parallel",
        type=click.IntRange(min=1),
        metavar="N",
        help="How many agents work at the same time on this machine.",
    ),
    click.option(
        "--agent",
        "agents",
        multiple=True,
        metavar="NAME|COMMAND",
        help="Who works: a profile, or a command with {prompt_file} or a space in it. If it is given several"
        " times, the next one takes over from the one before.",
    ),
    click.option("--chain", metavar="NAME", help="Who works: a chain of profiles of your agents.yml."),
    click.option("--max-usd", type=_POSITIVE, metavar="X", help="Stop before it costs more dollars."),
    click.option(
        "--until",
        type=MomentParam(),
        metavar="HH:MM|ISO",
        help="Start nothing after this time of this machine's clock, and end what runs.",
    ),
    click.option(
        "--stall-minutes",
        type=_POSITIVE,
        metavar="F",
        help="End an agent that did nothing for so long: no output, no use of the processor, no open tool.",
    ),
    click.option(
        "--minutes", type=_POSITIVE, metavar="F", help="End a process of an agent that runs for longer."
    ),
    click.option(
        "--resumes",
        type=click.IntRange(min=0),
        metavar="N",
        help="How often an attempt goes on after a limit or an interruption.",
    ),
    click.option(
        "--wait-at-limit",
        type=_POSITIVE,
        metavar="F",
        help="How many minutes to wait at a limit, before the next agent of the chain takes over.",
    ),
    click.option(
        "--land/--no-land",
        "land",
        default=None,
        help="Land the work of each task when it is done: see `deepwork land`. Default: `run.land` in"
        " config.yml.",
    ),
    click.option(
        "--without-dependencies",
        is_flag=True,
        default=None,
        help="Start tasks although work that they build on is on another machine; agents are told what is"
        " missing.",
    ),
)


def request_options(command: Function) -> Function:
    """Add the options that say who works, and how long."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def build_request(given: dict[str, Any]) -> RunRequest:
    """Build the request from the values of these options, which it takes out of `given`."""
    from deepwork.delivery.runner.models import RunOptions, RunRequest

    if given["agents"] and given["chain"]:
        raise click.UsageError("--agent and --chain both say who works; give one of them.")
    who = {name: given.pop(name) for name in ("agents", "chain", "parallel")}
    known = {name: given.pop(name) for name in RunOptions.__dataclass_fields__ if name in given}
    return RunRequest(**who, options={name: value for name, value in known.items() if value is not None})
