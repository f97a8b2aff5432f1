"""`deepwork runs`: what agents that deepwork started do and did; come back to them, pause and stop them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from deepwork.edge.cli.framework.applications import open_application
from deepwork.edge.cli.framework.id_resolution import resolve_id
from deepwork.edge.cli.framework.options import CommandGroup, json_option, place_options
from deepwork.edge.cli.framework.output import print_answer, print_listed, print_said
from deepwork.edge.cli.run.options import POSITIVE

if TYPE_CHECKING:
    from deepwork.edge.server.application import Application

_JSON_LINES_HELP = "Print one JSON object per line."
_id_argument = click.argument("id", metavar="RUN")
_either_argument = click.argument("id", metavar="RUN|ATTEMPT")
_attempt_argument = click.argument("id", metavar="ATTEMPT")
_json_lines_option = click.option("--json", "as_json", is_flag=True, help=_JSON_LINES_HELP)


@click.group(cls=CommandGroup)
def runs() -> None:
    """Runs of agents: list and show them, come back to them, pause and stop them."""


@runs.command("list")
@click.option("--open", "is_open", is_flag=True, help="Only those that have not ended.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="How many at most.")
@json_option
@place_options
def list_work(is_open: bool, limit: int, as_json: bool, path: str, **place: Any) -> None:
    """List runs, the newest first."""
    from deepwork.edge.cli.run.rendering import build_run_rows, load_runs

    with open_application(path, place, reads=True, quiet=as_json) as app:
        found = load_runs(app, limit, is_open=is_open)
    none = "No run is open." if is_open else "Nothing was run yet; start with `deepwork run PLAN`."
    print_listed({"runs": found}, "runs", build_run_rows(found), none, as_json=as_json)


@runs.command("show")
@_id_argument
@json_option
@place_options
def show_run(id: str, as_json: bool, path: str, **place: Any) -> None:
    """Show a run: how it is, what it cost, and each attempt at a task."""
    from deepwork.edge.cli.run.rendering import load_run, render_run

    with open_application(path, place, reads=True, quiet=as_json) as app:
        run = load_run(app, resolve_id(app.database, "run", id), is_whole=True)
    if as_json:
        print_answer(run, as_json=True)
    else:
        print("\n".join(render_run(run)))


@runs.command()
@_id_argument
@_json_lines_option
@place_options
def attach(id: str, as_json: bool, path: str, **place: Any) -> None:
    """Watch a run, and drive it if no other process does; it shows and returns what `deepwork run` does."""
    from deepwork.edge.cli.run.following import follow_run
    from deepwork.edge.cli.run.outputs import choose_output

    with open_application(path, place, reads=True, quiet=as_json) as app:
        known = resolve_id(app.database, "run", id)
        code = follow_run(app, known, choose_output(as_json=as_json))
    sys.exit(code)


@runs.command()
@click.argument("attempt_id", metavar="ATTEMPT")
@click.option("-f", "--follow", is_flag=True, help="Go on until the attempt has ended.")
@click.option("--raw", is_flag=True, help="Print the lines as the agent wrote them.")
@click.option("--stderr", "is_stderr", is_flag=True, help="Print what it wrote to standard error.")
@_json_lines_option
@place_options
def logs(
    attempt_id: str, follow: bool, raw: bool, is_stderr: bool, as_json: bool, path: str, **place: Any
) -> None:
    """Print what the agent of an attempt did and said, from its first start on."""
    from deepwork.delivery.runner.attempt_logs import LogReader
    from deepwork.edge.cli.run.outputs import choose_renderer

    with open_application(path, place, reads=True, quiet=as_json) as app:
        known = resolve_id(app.database, "attempt", attempt_id)
        reader = LogReader(app.database, app.settings.state_folder, known, is_stderr=is_stderr)
        render = choose_renderer(reader.vendor, as_json=as_json, is_raw=raw or is_stderr)
        for entry in reader.read(follow=follow):
            for line in render(entry):
                print(line)
            sys.stdout.flush()


@runs.command()
@_either_argument
@json_option
@place_options
def pause(id: str, as_json: bool, path: str, **place: Any) -> None:
    """Start nothing more for a run, whose agents go on; or end the agent of an attempt for now."""
    if id.startswith("at_"):
        _hold(id, "pause_attempt", path, place, as_json=as_json)
        return
    with open_application(path, place, reads=True, quiet=as_json) as app:
        changed = _decide(app, "pause_run", id)
    _print_run(changed, f"Nothing more starts until `deepwork runs resume {changed['id']}`.", as_json=as_json)


@runs.command()
@_either_argument
@json_option
@place_options
def resume(id: str, as_json: bool, path: str, **place: Any) -> None:
    """Let a paused run start agents again, or a paused attempt continue."""
    if id.startswith("at_"):
        _give_back(id, path, place, as_json=as_json)
        return
    with open_application(path, place, reads=True, quiet=as_json) as app:
        changed = _decide(app, "resume_run", id)
    _print_run(changed, f"Watch it with `deepwork runs attach {changed['id']}`.", as_json=as_json)


@runs.command()
@_either_argument
@click.option("--now", is_flag=True, help="End its agents; what they did stays in their trees.")
@json_option
@place_options
def stop(id: str, now: bool, as_json: bool, path: str, **place: Any) -> None:
    """Start nothing more for a run, and end it when its agents have ended. Of an attempt, end it now."""
    if id.startswith("at_"):
        _hold(id, "stop_attempt", path, place, as_json=as_json)
        return
    with open_application(path, place, reads=True, quiet=as_json) as app:
        changed = _decide(app, "stop_run", id, now=now)
        changed = _end_agents(app, changed) if now else changed
    said = "Its agents were ended." if now else "It ends when its agents have ended; --now ends them."
    _print_run(changed, said, as_json=as_json)


@runs.command()
@json_option
@place_options
def live(as_json: bool, path: str, **place: Any) -> None:
    """Show the agents at work: what each does, and what it has used."""
    from deepwork.edge.cli.framework.applications import call_operation
    from deepwork.edge.cli.run.rendering import build_lane_rows

    with open_application(path, place, reads=True, quiet=as_json) as app:
        found = call_operation(app, "list_lanes", {})
    none = "No agent is at work; start some with `deepwork run PLAN`."
    print_listed(found, "lanes", build_lane_rows(found["lanes"]), none, as_json=as_json)


@runs.command()
@_attempt_argument
@json_option
@place_options
def take(id: str, as_json: bool, path: str, **place: Any) -> None:
    """Take over the session of an agent: it is ended, and the command that continues its session is printed.

    Nothing else starts in its folder until `deepwork runs give-back ATTEMPT`.
    """
    _hold(id, "take_attempt", path, place, as_json=as_json)


@runs.command("give-back")
@_attempt_argument
@json_option
@place_options
def give_back(id: str, as_json: bool, path: str, **place: Any) -> None:
    """Let the session continue that you took over, or paused."""
    _give_back(id, path, place, as_json=as_json)


def _hold(id: str, operation: str, path: str, place: dict[str, Any], *, as_json: bool) -> None:
    """Pause, take or stop an attempt; end its agent here if no other process drives it."""
    from threading import Event

    from deepwork.edge.cli.framework.applications import call_operation
    from deepwork.edge.cli.run.rendering import decide_attempt, render_held

    with open_application(path, place, reads=True, quiet=as_json) as app:
        known = resolve_id(app.database, "attempt", id)
        decide_attempt(app, operation, known)
        app.runner.carry_out(known, Event())
        lane = call_operation(app, "get_lane", {"id": known})
        takeover = call_operation(app, "get_takeover", {"id": known})
    if as_json:
        print_answer({**lane, "takeover": takeover}, as_json=True)
    else:
        print("\n".join(render_held(lane, takeover)))


def _give_back(id: str, path: str, place: dict[str, Any], *, as_json: bool) -> None:
    from deepwork.edge.cli.framework.applications import call_operation
    from deepwork.edge.cli.run.rendering import decide_attempt, render_given_back

    with open_application(path, place, reads=True, quiet=as_json) as app:
        known = resolve_id(app.database, "attempt", id)
        decide_attempt(app, "continue_attempt", known)
        lane = call_operation(app, "get_lane", {"id": known})
    print_said(lane, render_given_back(lane), as_json=as_json)


@runs.command("set")
@_id_argument
@click.option("--max-usd", type=POSITIVE, metavar="X", help="What it may cost in all, in dollars.")
@click.option(
    "--agents", type=click.IntRange(1, 1000), metavar="N", help="How many agents each of its machines starts."
)
@click.option("--detach", is_flag=True, help="Go on without this terminal, and print how to come back.")
@_json_lines_option
@place_options
def set_run(
    id: str, max_usd: float | None, agents: int | None, detach: bool, as_json: bool, path: str, **place: Any
) -> None:
    """Change the limits of a run; with --max-usd, continue it if nobody drives it.

    A run that used up its dollars continues, too. With --max-usd it shows and returns what `deepwork run`
    does, unless another process drives the run. With fewer agents, those that work finish what they do.
    """
    from deepwork.edge.cli.run.following import continue_run
    from deepwork.edge.cli.run.rendering import load_run
    from deepwork.gates.budgets.rules import format_dollars
    from deepwork.kernel.states import State

    if max_usd is None and agents is None:
        raise click.UsageError("Give --max-usd, --agents, or both.")
    given = {name: value for name, value in (("max_usd", max_usd), ("agents", agents)) if value is not None}
    with open_application(path, place, reads=True, quiet=as_json) as app:
        changed = _decide(app, "set_run", id, **given)
        if max_usd is None or load_run(app, changed["id"])["state"] != State.UNATTENDED:
            said = [f"It may cost {format_dollars(max_usd)}."] if max_usd is not None else []
            said += [f"It starts up to {agents} agents on each machine."] if agents is not None else []
            _print_run(changed, " ".join(said), as_json=as_json)
            return
        code = continue_run(app, changed["id"], place, detach=detach, as_json=as_json)
    sys.exit(code)


def _decide(app: Application, operation: str, id: str, **arguments: Any) -> dict[str, Any]:
    from deepwork.edge.cli.run.rendering import decide

    return decide(app, operation, resolve_id(app.database, "run", id), **arguments)


def _end_agents(app: Application, changed: dict[str, Any]) -> dict[str, Any]:
    """Wait until the agents have ended; end them here if no other process drives the run."""
    from threading import Event

    from deepwork.delivery.runner.responses import build_payload, describe_run

    return build_payload(describe_run(app.runner.drive(changed["id"], Event())))


def _print_run(changed: dict[str, Any], said: str, *, as_json: bool) -> None:
    print_said(changed, f"{changed['id']}: {changed['status']}. {said}", as_json=as_json)
