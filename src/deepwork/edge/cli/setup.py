"""Commands that set up a project and the clients that use it."""

from __future__ import annotations

import difflib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deepwork.edge.cli.framework.options import json_option, load_command_settings, project_option
from deepwork.edge.cli.framework.output import print_answer, to_printable
from deepwork.kernel.config import Settings
from deepwork.kernel.vendors import BY_NAME, VENDORS, SetupScope, Vendor

if TYPE_CHECKING:
    from deepwork.views.setup.config_files import ConfigFileChange
    from deepwork.views.setup.guidance import ToolsetCatalog
    from deepwork.views.setup.planner import SetupPlan, SetupPlanner


@click.command()
@click.option("--example-job", is_flag=True, help="Write an example job.")
@click.option("--example-review", is_flag=True, help="Write an example .deepreview file with two rules.")
@project_option
@json_option
def init(example_job: bool, example_review: bool, path: str, as_json: bool) -> None:
    """Set up deepwork in a project: write settings, an ignore file for the store and, on request, examples.

    Existing files are left untouched; running this again is harmless.
    """
    from deepwork.views.setup.project import EXAMPLE_JOB, init_project

    root = load_command_settings(path).project_root
    made = init_project(root, example_job=example_job, example_review=example_review)
    steps = _build_next_steps(EXAMPLE_JOB if example_job else None, example_review)
    if as_json:
        print_answer({"project": str(root), **asdict(made), "next": list(steps)}, as_json=True)
        return
    rows: list[tuple[str, Any]] = [("wrote", made.written), ("kept", made.kept)]
    for word, paths in rows:
        for each in paths:
            print(f"{word:<6} {to_printable(each)}")
    print("\nNext:")
    for command, purpose in steps.items():
        print(f"  {command:<{max(map(len, steps))}}  {purpose}")


def _build_next_steps(job: str | None, has_rules: bool) -> dict[str, str]:
    """Return the commands to run next, and what each is for."""
    return {
        "deepwork setup --detect": "list the clients found here, then: deepwork setup CLIENT",
        **({f"deepwork jobs show {job}": "look at the example, then run it from your client"} if job else {}),
        **({"deepwork review": "list the reviews that your changes need"} if has_rules else {}),
        "deepwork doctor": "check the installation",
    }


_HELP = f"""Configure a client to start deepwork, and write guidance for its agents.

    \b
    CLIENT is one of {", ".join(BY_NAME)}.
    Adds one entry to the client's config file and leaves the rest untouched; --remove undoes it.
    """


@click.command(help=_HELP)
@click.argument("client", required=False, type=click.Choice(list(BY_NAME)), metavar="[CLIENT]")
@click.option(
    "--scope", type=click.Choice(["project", "user"]), help="Configure the project's file or your own."
)
@click.option("--toolsets", metavar="NAMES", help="Offer these toolsets, separated by commas, or `all`.")
@click.option("--hooks", "with_hooks", is_flag=True, help="Also make the client call `deepwork hook`.")
@click.option("--no-guidance", is_flag=True, help="Do not change AGENTS.md, CLAUDE.md and GEMINI.md.")
@click.option("--absolute", is_flag=True, help="Write deepwork's full path, even into a project's file.")
@click.option(
    "--force",
    is_flag=True,
    help="Replace or remove an entry that you wrote yourself, and follow links out of the project.",
)
@click.option("--remove", "mode", flag_value="remove", help="Remove what setup wrote.")
@click.option(
    "--check",
    "mode",
    flag_value="check",
    help="Show what differs, change nothing; exit code 1 if anything does.",
)
@click.option("--print", "mode", flag_value="print", help="Show what would be written, change nothing.")
@click.option(
    "--detect", "mode", flag_value="detect", help="List the clients found here, and which are set up."
)
@project_option
@json_option
def setup(client: str | None, mode: str | None, path: str, as_json: bool, **options: Any) -> None:
    """Configure a client, or list the clients."""
    planner = build_planner(load_command_settings(path))
    if mode == "detect" or client is None:
        if client is None and mode not in (None, "detect"):
            raise click.UsageError(f"--{mode} needs a CLIENT: {', '.join(BY_NAME)}.")
        _print_clients(
            planner, [BY_NAME[client]] if client else VENDORS, only_found=mode == "detect", as_json=as_json
        )
        return
    _run_setup(planner, BY_NAME[client], mode or "write", as_json=as_json, **options)


def _run_setup(
    planner: SetupPlanner,
    client: Vendor,
    mode: str,
    *,
    as_json: bool,
    scope: SetupScope | None,
    toolsets: str | None,
    with_hooks: bool,
    no_guidance: bool,
    absolute: bool,
    force: bool,
) -> None:
    from deepwork.views.setup.config_files import apply_change
    from deepwork.views.setup.planner import SetupRequest

    chosen_scope: SetupScope = scope or client.default_scope
    request = SetupRequest(
        client,
        chosen_scope,
        toolsets=_parse_names(toolsets),
        with_guidance=not no_guidance,
        with_hooks=with_hooks,
        force=force,
        absolute=absolute,
    )
    plan = planner.plan_removal(request) if mode == "remove" else planner.plan_setup(request)
    if mode in ("write", "remove"):
        for change in plan.changes:
            apply_change(change, new_mode=0o644 if chosen_scope == "project" else 0o600)
    _print_result(planner, client, chosen_scope, mode, plan, as_json=as_json)
    if mode == "check" and any(change.action != "unchanged" for change in plan.changes):
        sys.exit(1)


def _parse_names(toolsets: str | None) -> tuple[str, ...] | None:
    return tuple(name.strip() for name in toolsets.split(",") if name.strip()) if toolsets else None


def list_set_up_clients(settings: Settings) -> list[Vendor]:
    """List the clients that start deepwork in this project."""
    planner = build_planner(settings)
    scopes: tuple[SetupScope, ...] = ("project", "user")
    return [
        client
        for client in VENDORS
        if any(planner.get_status(client, scope) in ("yes", "by hand") for scope in scopes)
    ]


def build_planner(settings: Settings) -> SetupPlanner:
    """Build what reads and plans the configuration of clients."""
    from deepwork.views.setup.entry import MachineLocations
    from deepwork.views.setup.planner import SetupPlanner

    here = MachineLocations(
        project=settings.project_root,
        home=Path.home(),
        environment=os.environ,
        is_macos=sys.platform == "darwin",
        program=_find_program(),
    )
    return SetupPlanner(here, lambda: _build_toolbox(settings))


def _find_program() -> list[str]:
    """Find the command that starts this installation: as called, else next to its Python, else by its Python.

    Symbolic links are not resolved: their targets move when an installer installs the next version.
    """
    called = Path(sys.argv[0]).absolute()
    beside = Path(sys.executable).with_name("deepwork")
    for place in (called, beside):
        if place.name == "deepwork" and place.is_file() and os.access(place, os.X_OK):
            return [str(place)]
    return [sys.executable, "-m", "deepwork"]


def _build_toolbox(settings: Settings) -> ToolsetCatalog:
    """List the toolsets and count their tools by the server's own rules."""
    from dataclasses import replace

    from deepwork.edge.server.application import Application
    from deepwork.edge.server.registry import select_tools
    from deepwork.kernel.text_budget.tokens import estimate_tokens
    from deepwork.views.setup.guidance import ToolsetCatalog
    from deepwork.views.setup.project import has_only_plans

    def count(toolsets: Sequence[str]) -> int:
        chosen = replace(unopened, toolsets=tuple(toolsets))
        return len(select_tools(Application(chosen).registry, chosen))

    def estimate(toolsets: Sequence[str]) -> int:
        chosen = replace(unopened, toolsets=tuple(toolsets))
        shown = [
            {"name": spec.name, "description": spec.listed_description, "inputSchema": spec.listed_schema}
            for spec in select_tools(Application(chosen).registry, chosen).values()
        ]
        return estimate_tokens(json.dumps(shown, separators=(",", ":")))

    unopened = replace(settings, database="unused.db")
    registry = Application(replace(unopened, toolsets=("all",))).registry
    return ToolsetCatalog(
        tuple(sorted({spec.toolset for spec in registry.values()})),
        settings.toolsets,
        count,
        estimate,
        has_only_plans=has_only_plans(settings),
    )


def _print_result(
    planner: SetupPlanner, client: Vendor, scope: SetupScope, mode: str, plan: SetupPlan, *, as_json: bool
) -> None:
    answer: dict[str, Any] = {
        "client": client.name,
        "scope": scope,
        "files": [
            {"path": str(change.path), "about": list(change.about), "action": change.action}
            | ({"diff": "".join(_render_diff(change))} if mode in ("check", "print") else {})
            for change in plan.changes
        ],
        "notes": plan.notes,
    }
    if plan.choice:
        choice = plan.choice
        answer |= {
            "toolsets": list(choice.toolsets),
            "left_out": list(choice.left_out),
            "tools": choice.tools,
            "tokens": choice.tokens,
        }
    if mode == "check":
        answer["in_order"] = all(change.action == "unchanged" for change in plan.changes)
    if mode == "write":
        answer["next"] = client.next_step
    print_answer(answer, as_json=as_json, render=lambda _: _render_result(planner, client, scope, mode, plan))


_ACTION_WORDS = {
    "write": {"created": "wrote", "changed": "changed", "unchanged": "up to date", "deleted": "removed"},
    "remove": {"changed": "removed from", "unchanged": "nothing to remove in", "deleted": "removed"},
    "check": {"created": "missing", "changed": "differs", "unchanged": "up to date", "deleted": "unexpected"},
    "print": {"created": "would write", "changed": "would change", "unchanged": "up to date", "deleted": "-"},
}


def _render_result(
    planner: SetupPlanner, client: Vendor, scope: SetupScope, mode: str, plan: SetupPlan
) -> Iterator[str]:
    yield f"{client.title}, {'for this project' if scope == 'project' else 'for you'}:"
    for change in plan.changes:
        word = _ACTION_WORDS[mode].get(change.action, change.action)
        yield f"  {word:<16} {to_printable(planner.format_path(change.path))}  ({', '.join(change.about)})"
        if mode in ("check", "print"):
            yield from (f"    {to_printable(line.rstrip(chr(10)))}" for line in _render_diff(change))
    if not plan.changes:
        yield "  nothing to remove"
    if plan.choice and mode != "remove":
        names, tokens = ", ".join(plan.choice.toolsets), round(plan.choice.tokens, -2)
        yield f"{plan.choice.tools} tools, at most {tokens:,} tokens in every session: {names}."
        yield from _render_left_out(plan)
    yield from plan.notes
    if mode == "write":
        yield f"Next: {client.next_step}"


def _render_left_out(plan: SetupPlan) -> Iterator[str]:
    if plan.choice and plan.choice.left_out:
        left_out = ", ".join(plan.choice.left_out)
        yield f"Left out, because {plan.choice.because}: {left_out}."
        yield "Choose others, for example --toolsets jobs,plans,reviews; `--toolsets all` offers everything."


def _render_diff(change: ConfigFileChange) -> Iterator[str]:
    """Render a change as a unified diff without its header."""
    before, after = (text.splitlines(keepends=True) for text in (change.before or "", change.after or ""))
    yield from list(difflib.unified_diff(before, after, n=2))[2:]


def _print_clients(
    planner: SetupPlanner, clients: Sequence[Vendor], *, only_found: bool, as_json: bool
) -> None:
    rows = [
        {
            "client": client.name,
            "project": planner.get_status(client, "project"),
            "user": planner.get_status(client, "user"),
            "found": planner.list_usage_signs(client),
        }
        for client in clients
    ]
    shown = (
        [row for row in rows if row["found"] or "yes" in (row["project"], row["user"])]
        if only_found
        else rows
    )
    if as_json:
        print_answer({"clients": shown}, as_json=True)
        return
    if shown:
        print_answer({"clients": shown}, as_json=False)
    else:
        print(f"No client was found here. deepwork supports {', '.join(BY_NAME)}.")
    print("`project` and `user` show where deepwork is set up. To set up a client: deepwork setup CLIENT")
    print("--print shows what it would write; --remove undoes it.")
