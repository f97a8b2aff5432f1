"""The options that choose another engine than this machine, and what they do: Temporal."""

from __future__ import annotations

import sys
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

    from deepwork.delivery.runner.models import Run
    from deepwork.delivery.runner.temporal import TemporalPlace
    from deepwork.edge.server.application import Application

_OPTIONS = (
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


def engine_options(command: Function) -> Function:
    """Add the options that choose an engine."""
    for option in reversed(_OPTIONS):
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
