"""`deepwork work --once`: one attempt at one task, for schedulers and pipelines."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from deepwork.edge.cli.framework.applications import open_application
from deepwork.edge.cli.framework.background_work import INTERRUPTED, TERMINATED, BackgroundWork, Interruptions
from deepwork.edge.cli.framework.id_resolution import resolve_id
from deepwork.edge.cli.framework.options import json_option, place_options
from deepwork.edge.cli.framework.output import print_answer, to_printable
from deepwork.edge.cli.run.options import engine_options, serve_engine, take_engine
from deepwork.kernel.supervision.supervisor import hide_process

if TYPE_CHECKING:
    from threading import Event

    from deepwork.delivery.runner.models import WorkResult
    from deepwork.edge.server.application import Application

WORKED, FAILED, NOTHING, PARKED = 0, 1, 75, 76
_EXIT_CODES = {"worked": WORKED, "nothing": NOTHING, "parked": PARKED, "failed": FAILED}
"""Exit codes; docs/command-line.md documents them."""


@click.command()
@click.option("--once", is_flag=True, help="Make one attempt at one task, then end.")
@click.option("--plan", "workflow_id", metavar="ID", help="Only tasks of this plan. Default: any open plan.")
@click.option("--agent", metavar="NAME|COMMAND", help="Who works. Default: the project's chain of agents.")
@click.option(
    "--labels",
    default="",
    metavar="A,B",
    help="What this worker offers: only tasks whose required capabilities are all among these. Default: only"
    " tasks that require none.",
)
@click.option(
    "--agents", type=click.IntRange(min=1), metavar="N", help="For Temporal: how many attempts at a time."
)
@engine_options
@json_option
@place_options
def work(
    once: bool,
    workflow_id: str | None,
    agent: str | None,
    labels: str,
    agents: int | None,
    as_json: bool,
    path: str,
    **given: Any,
) -> None:
    """Make one attempt at the oldest ready task, and wait for its end.

    With `--engine temporal` instead of `--once`: work on what a Temporal server hands out, until stopped.

    Exit code: 0 worked, 75 nothing to do, 76 parked, 1 failed.
    """
    engine = take_engine(given)
    if once == (engine is not None):
        raise click.UsageError("Give --once, or --engine temporal.")
    if engine is not None:
        if workflow_id or agent or labels:
            raise click.UsageError("With --engine temporal, `deepwork run` chooses the plan and the agents.")
        serve_engine(engine, agents or 1, path, given)
        return
    if agents is not None:
        raise click.UsageError("--agents is for --engine temporal; start the command again for another task.")
    with open_application(path, given, reads=True, quiet=as_json) as app:
        known = resolve_id(app.database, "plan", workflow_id) if workflow_id else None
        with Interruptions() as interruptions:
            result = _work(app, known, agent, _split_labels(labels), interruptions)
    if result is None:
        print("The agent goes on; the same command comes back to it.", file=sys.stderr)
        sys.exit(TERMINATED if interruptions.is_terminated else INTERRUPTED)
    if as_json:
        print_answer(_build_answer(result), as_json=True)
    else:
        print("\n".join(_render(result)))
    sys.exit(_EXIT_CODES[result.status])


def _split_labels(text: str) -> frozenset[str]:
    return frozenset(filter(None, (label.strip() for label in text.split(","))))


def _work(
    app: Application,
    workflow_id: str | None,
    agent: str | None,
    labels: frozenset[str],
    interruptions: Interruptions,
) -> WorkResult | None:
    """Make the attempt; None if the person interrupted it."""

    def work_once(stop: Event) -> WorkResult:
        hide_process()  # from the agent
        return app.runner.work_once(workflow_id, agent, stop, labels=labels)

    with BackgroundWork(work_once, interruptions) as working:
        return working.wait()


def _build_answer(result: WorkResult) -> dict[str, Any]:
    from deepwork.delivery.runner.responses import build_payload, describe_attempt

    attempt = {"attempt": build_payload(describe_attempt(result.attempt))} if result.attempt else {}
    reason = {"reason": result.reason} if result.reason else {}
    return {"status": result.status.value, **reason, **attempt}


def _render(result: WorkResult) -> list[str]:
    if result.attempt is None:
        return [to_printable(result.reason or "There is nothing to do.")]
    about = f"{result.attempt.id}: {result.attempt.stage.value}"
    return [to_printable(". ".join(filter(None, [about, result.reason or result.attempt.reason])))]
