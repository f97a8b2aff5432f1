"""The options of `deepwork run`: what they ask for, and who places attempts: this machine, or Temporal."""

from __future__ import annotations

import re
import sys
from datetime import datetime, timedelta
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

from deepwork.edge.cli.framework.applications import open_application
from deepwork.edge.cli.framework.background_work import TERMINATED, BackgroundWork, Interruptions
from deepwork.edge.cli.framework.options import Function
from deepwork.kernel.errors import NotAllowed
from deepwork.kernel.supervision.supervisor import hide_process

if TYPE_CHECKING:
    from threading import Event

    from deepwork.delivery.runner.models import Run, RunRequest
    from deepwork.delivery.runner.temporal import TemporalPlace
    from deepwork.edge.server.application import Application

_CLOCK_PATTERN = re.compile(r"(\d{1,2}):(\d\d)")
_LAST_HOUR, _LAST_MINUTE = 23, 59
POSITIVE = click.FloatRange(min=0, min_open=True)
_ENGINE_OPTIONS = (
    click.option(
        "--engine",
        type=click.Choice(["local", "temporal"]),
        default="local",
        help="Who places and watches attempts: this machine (the default), or a Temporal server.",
    ),
    click.option(
        "--temporal-address",
        metavar="HOST:PORT",
        help="The Temporal server. Default: $TEMPORAL_ADDRESS, or localhost:7233.",
    ),
    click.option("--temporal-namespace", metavar="NAME", help="Default: $TEMPORAL_NAMESPACE, or default."),
    click.option("--temporal-queue", metavar="NAME", help="The task queue. Default: deepwork."),
)


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
    click.option("--max-usd", type=POSITIVE, metavar="X", help="Stop before it costs more dollars."),
    click.option(
        "--until",
        type=MomentParam(),
        metavar="HH:MM|ISO",
        help="Start nothing after this time of this machine's clock, and end what runs.",
    ),
    click.option(
        "--stall-minutes",
        type=POSITIVE,
        metavar="F",
        help="End an agent that did nothing for so long: no output, no use of the processor, no open tool.",
    ),
    click.option(
        "--minutes", type=POSITIVE, metavar="F", help="End a process of an agent that runs for longer."
    ),
    click.option(
        "--resumes",
        type=click.IntRange(min=0),
        metavar="N",
        help="How often an attempt goes on after a limit or an interruption.",
    ),
    click.option(
        "--wait-at-limit",
        type=POSITIVE,
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


def engine_options(command: Function) -> Function:
    """Add the options that choose an engine."""
    for option in reversed(_ENGINE_OPTIONS):
        command = option(command)
    return command


def take_engine(given: dict[str, Any]) -> TemporalPlace | None:
    """Return which Temporal server to use, from the options, which it takes out of `given`; None for none."""
    engine = given.pop("engine")
    wanted = {name: given.pop(f"temporal_{name}") for name in ("address", "namespace", "queue")}
    chosen = {name: value for name, value in wanted.items() if value is not None}
    if engine == "local":
        if chosen:
            raise click.UsageError(f"--temporal-{next(iter(chosen))} is for --engine temporal.")
        return None
    place: TemporalPlace = _import_temporal().TemporalPlace(**chosen)
    return place


def start_in_engine(place: TemporalPlace, app: Application, run: Run, agents: int | None) -> None:
    """Let Temporal work on a run."""
    temporal = _import_temporal()
    given = temporal.RunInput(run.id, agents or app.settings.run_agents)
    temporal.start_workflow(place, given)


def serve_engine(place: TemporalPlace, agents: int, path: str, store: dict[str, Any]) -> None:
    """Work on what Temporal hands out, until the command is stopped; agents go on then."""
    temporal = _import_temporal()
    with open_application(path, store, reads=True) as app, Interruptions() as interruptions:

        def serve(stop: Event) -> None:
            hide_process()  # from the agents
            temporal.serve_attempts(place, app.runner, agents, stop, _say_ready)

        with BackgroundWork(serve, interruptions) as serving:
            serving.wait()
        is_terminated = interruptions.is_terminated
    print("Stopped; the agents go on, and the next worker here comes back to them.", file=sys.stderr)
    sys.exit(TERMINATED if is_terminated else 0)


def _say_ready() -> None:
    print("Waiting for attempts. Ctrl-C stops this worker; its agents go on.", file=sys.stderr, flush=True)


def _import_temporal() -> ModuleType:
    try:
        from deepwork.delivery.runner import temporal
    except ImportError as error:
        raise NotAllowed(
            f"The engine `temporal` needs a package that is not installed: {error}.",
            suggestion="Install it with: pip install 'deepwork[temporal]'",
        ) from error
    return temporal
