"""`deepwork do`: what is wanted, in a sentence; what comes back is a tested branch."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from deepwork.edge.cli.do.sources import WishText, is_wish_id, read_wish
from deepwork.edge.cli.framework.applications import call_operation, name_person, open_application
from deepwork.edge.cli.framework.documents import DocumentParam
from deepwork.edge.cli.framework.options import place_options
from deepwork.edge.cli.framework.output import print_listed
from deepwork.edge.cli.states import name_state
from deepwork.work.wishes.models import WishSource

if TYPE_CHECKING:
    from deepwork.edge.cli.do.questions import Person
    from deepwork.edge.server.application import Application

Row = dict[str, Any]
_OVER = ("done", "landed", "stopped")
_ROW_KEYS = ("id", "state", "because", "name", "branch", "created_at")
_MAX_WISHES = 50


def _plan_form() -> Any:
    from deepwork.edge.cli.plan_file import PlanFile

    return PlanFile


@click.command("do")
@click.argument("wish", required=False, metavar="[WISH|-|FILE|ID]")
@click.option(
    "--plan",
    "plan_file",
    type=DocumentParam(_plan_form),
    metavar="FILE",
    help="A finished plan, as for `plans create`; no planner works.",
)
@click.option("--list", "lists", is_flag=True, help="List what was wanted here, and how far it is.")
@click.option("--yes", is_flag=True, help="Ask nothing; for scripts.")
@click.option(
    "--trust", is_flag=True, help="Trust the checks that the project has, or its tests as its checks."
)
@click.option("--no-checks", is_flag=True, help="Let no check decide whether work is done.")
@click.option("--detach", is_flag=True, help="Go on without this terminal once it has started.")
@click.option("--planner", metavar="AGENT", help="Who plans. Default: `do.planner`, or who works.")
@click.option(
    "--reviewer",
    metavar="AGENT",
    help="Who reviews the whole in the end. Default: `do.reviewer`, or who works.",
)
@click.option("--no-review", is_flag=True, help="Leave out the review of the whole.")
@click.option(
    "--agent", "agents", multiple=True, metavar="NAME|COMMAND", help="Who works, as for `deepwork run`."
)
@click.option("--chain", metavar="NAME", help="Who works: a chain of your agents.yml.")
@click.option(
    "--agents",
    "parallel",
    type=click.IntRange(1, 64),
    metavar="N",
    help="How many work at the same time. Default: `do.agents`, 2.",
)
@click.option(
    "--max-usd",
    type=click.FloatRange(min=0, min_open=True),
    metavar="X",
    help="Stop before it costs more. Default: `do.max_usd`, 20.",
)
@place_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def do(wish: str | None, plan_file: Row | None, lists: bool, as_json: bool, **given: Any) -> None:
    """Let agents plan, do, test and land what you want, and report.

    WISH is a sentence, `-` for standard input, or a file. Without it, or after a kill, the newest wish of
    this project that is not over continues. Exit code: 0 done, 3 something needs a person, 1 refused or
    failed, 130 interrupted: its agents go on, and the same command comes back to them.
    """
    from deepwork.edge.cli.do.questions import Person

    if given["agents"] and given["chain"]:
        raise click.UsageError("--agent and --chain both say who works; give one of them.")
    if lists:
        _print_list(given, as_json=as_json)
        return
    if plan_file is not None and wish is not None:
        raise click.UsageError("--plan is what is wanted already; leave out the wish.")
    text = _read(wish, plan_file)
    person = Person(yes=given["yes"], as_json=as_json)
    place = {name: given[name] for name in ("database", "global_store")}
    with open_application(given["path"], place, reads=text is None, quiet=True) as app:
        code = _go(app, place, person, text, wish, plan_file, given)
    sys.exit(code)


def _read(wish: str | None, plan_file: Row | None) -> WishText | None:
    """Return what is wanted now; None to continue what was wanted before."""
    if plan_file is not None:
        return WishText(plan_file.get("prompt") or plan_file["summary"], WishSource.PLAN)
    return None if wish is None or is_wish_id(wish) else read_wish(wish)


def _go(
    app: Application,
    place: Row,
    person: Person,
    text: WishText | None,
    wish: str | None,
    plan_file: Row | None,
    given: Row,
) -> int:
    from deepwork.edge.cli.do.flow import Flow

    found = _find(app, wish) if text is None else _create(app, person, text, plan_file, given)
    if found is None:
        person.say(
            "Everything that was wanted here is done or was stopped.",
            "deepwork do --list  # what it was",
            'deepwork do "…"  # says what you want now',
        )
        return 0
    if text is None and not person.as_json:
        person.say(f"Continuing {found['name']!r} ({found['id']}).")
    return Flow(app, place, person, detach=given["detach"]).go(found)


def _find(app: Application, id: str | None) -> Row | None:
    """Find the wish to continue; None if there are only wishes that are over."""
    if id is not None:
        found: Row = call_operation(app, "get_wish", {"id": id})
        return found
    listed = _list(app)
    opened = [each for each in listed if each["state"] not in _OVER]
    if not listed:
        raise click.UsageError(
            'Missing argument: say what you want, such as `deepwork do "Add a dark theme"`.'
        )
    return opened[0] if opened else None


def _list(app: Application) -> list[Row]:
    here = str(app.settings.repository_root)
    found: list[Row] = call_operation(app, "list_wishes", {"repository_path": here, "limit": _MAX_WISHES})[
        "wishes"
    ]
    return found


def _create(app: Application, person: Person, text: WishText, plan_file: Row | None, given: Row) -> Row:
    """Look whether it can be done here at all, settle the checks, then store the wish."""
    from deepwork.delivery.runner.models import RunRequest
    from deepwork.edge.cli.do.checks import CheckChoice, settle_checks
    from deepwork.edge.cli.run.command import warn_of_unseen_files
    from deepwork.edge.server.assembly.trees import open_git
    from deepwork.kernel.call import Call
    from deepwork.work.wishes.operations import require_wish

    require_wish(text.text)
    settings = app.settings
    request = RunRequest(agents=given["agents"], chain=given["chain"])
    app.runner.require_ready(request)
    for name in filter(
        None, (given["planner"] or settings.do_planner, given["reviewer"] or settings.do_reviewer)
    ):
        app.runner.require_ready(RunRequest(agents=(name,)))
    choice = CheckChoice(trust=given["trust"], without=given["no_checks"])
    checks = settle_checks(settings, open_git(settings.repository_root), person, choice)
    warn_of_unseen_files(app, settings.repository_root)
    most = given["max_usd"] or settings.do_max_usd
    wanted = {
        "text": text.text,
        "source": text.source.value,
        "source_ref": text.ref,
        "planner": given["planner"] or settings.do_planner or None,
        "reviewer": given["reviewer"] or settings.do_reviewer or None,
        "agents": list(given["agents"]),
        "chain": given["chain"],
        "parallel": given["parallel"] or settings.do_agents,
        "max_usd": most or None,
        "checks": list(checks),
        "review": not given["no_review"],
    }
    call = Call(name_person(), "create_wish", carries_notices=False)
    found: Row = call_operation(app, "create_wish", wanted, call)
    if plan_file is not None:
        _set_plan(app, found, plan_file)
    return found


def _set_plan(app: Application, wish: Row, plan_file: Row) -> None:
    """Give the wish its finished plan, unless it has it from an earlier start of this command."""
    from deepwork.edge.cli.plan_file import split_file
    from deepwork.kernel.call import Call

    if call_operation(app, "get_wish_plan", {"id": wish["id"]})["status"] == "planning":
        _, plan = split_file(plan_file)
        call = Call(name_person(), "workflow_set_plan", carries_notices=False)
        call_operation(app, "workflow_set_plan", {"id": wish["plan_id"], "plan": plan}, call)


def _build_row(wish: Row) -> Row:
    """Build what a person sees of a wish in a list: words, as in every list."""
    code, _, detail = (wish.get("because") or "").partition(": ")
    shown = wish | {
        "state": name_state(wish["state"]),
        "because": ": ".join(filter(None, [code.replace("_", " "), detail])),
    }
    return {key: shown[key] for key in _ROW_KEYS if shown.get(key) is not None}


def _print_list(given: Row, *, as_json: bool) -> None:
    place = {name: given[name] for name in ("database", "global_store")}
    with open_application(given["path"], place, reads=True, quiet=as_json) as app:
        found = _list(app)
    rows = [_build_row(each) for each in found]
    answer = {"wishes": found}
    print_listed(answer, "wishes", rows, 'Nothing was wanted here yet: `deepwork do "…"`.', as_json=as_json)
