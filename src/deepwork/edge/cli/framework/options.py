"""Options and arguments that many commands share, and groups of commands."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from deepwork.kernel.config import Settings, find_project, load_settings

_KINDS = {
    "agent_id": "agent",
    "current_task_id": "task",
    "sender_id": "agent",
    "recipient_id": "agent",
    "issue_id": "issue",
    "job_name": "job",
    "phase_id": "phase",
    "session_id": "session",
    "task_id": "task",
    "task_ids": "task",
    "template_id": "template",
    "message_ids": "message",
    "workflow_id": "plan",
    "from_workflow_id": "plan",
    "workspace_id": "workspace",
}
_KINDS_BY_GROUP = {
    ("plans", "id"): "plan",
    ("tasks", "id"): "task",
    ("agents", "id"): "agent",
    ("messages", "id"): "message",
    ("workspaces", "id"): "workspace",
    ("jobs", "name"): "job",
    ("jobs", "targets"): "job",
    ("track", "workflow_id"): "record",
    ("track", "task_id"): "tracked_task",
    ("track", "parent_task_id"): "tracked_task",
    ("diff", "task_id"): "any_task",
    ("answer", "id"): "any_issue",
    ("approvals", "id"): "approval",
    ("tell", "target"): "told",
    ("comment", "task"): "task",
    ("comment", "task_id"): "task",
    ("show", "id"): "any",
    ("run", "target"): "plan_or_job",
    ("land", "work"): "task_or_plan",
    ("landings", "id"): "landing",
    ("landings", "plan"): "plan",
    ("runs", "id"): "run",
    ("runs", "attempt_id"): "attempt",
}
"""(first word of the command, parameter) -> kind of value, where the parameter's name is ambiguous."""


def find_kind(group: str, parameter: str) -> str:
    """Return the kind of thing that a command's parameter names; empty if it names none."""
    return _KINDS_BY_GROUP.get((group, parameter)) or _KINDS.get(parameter, "")


def is_stored(kind: str) -> bool:
    """Whether things of this kind are only in the store; jobs and templates are also files."""
    return kind not in ("", "job", "template")


class CommandGroup(click.Group):
    """A group of commands: it lists what it is about if no command is given, and helps in full paragraphs."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take `deepwork runs` and `deepwork runs --json` as `deepwork runs list …`, where there is one."""
        is_bare = not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names)
        if is_bare and not self.invoke_without_command and self._lists_alone(ctx):
            args = ["list", *args]
        return super().parse_args(ctx, args)

    def _lists_alone(self, ctx: click.Context) -> bool:
        command = self.get_command(ctx, "list") if "list" in self.list_commands(ctx) else None
        return command is not None and not any(each.required for each in command.params)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command; if it is unknown, the error suggests similar names."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            names = self.list_commands(ctx)
            raise click.NoSuchCommand(error.command_name, possibilities=names, ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = self.build_help_rows(ctx)
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def build_help_rows(self, ctx: click.Context) -> list[tuple[str, str]]:
        """Return (name, short help) for each visible command."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        return [
            (name, format_short_help(each)) for name, each in found if each is not None and not each.hidden
        ]


def format_short_help(command: click.Command) -> str:
    """Return the first paragraph of a command's help as one line."""
    return " ".join((command.help or "").split("\n\n")[0].split())


_SHARED_OPTIONS = ("--path", "--db", "--global", "--json", "--idempotency-key")


def sort_parameters(command: click.Command) -> click.Command:
    """Sort the parameters of a command and its subcommands: arguments, its own options, shared options."""
    command.params.sort(key=_rank_parameter)
    if isinstance(command, click.Group):
        for each in command.commands.values():
            sort_parameters(each)
    return command


def _rank_parameter(parameter: click.Parameter) -> int:
    if isinstance(parameter, click.Argument):
        return -2
    return next((_SHARED_OPTIONS.index(name) for name in parameter.opts if name in _SHARED_OPTIONS), -1)


Function = TypeVar("Function", bound=Callable[..., Any])
CURRENT_FOLDER = "."


def _inherit_from_group(context: click.Context, option: click.Parameter, value: Any) -> Any:
    """Use the group's value of an option: `review --path DIR rules` equals `review rules --path DIR`."""
    if context.parent is None or context.get_parameter_source(option.name or "") != ParameterSource.DEFAULT:
        return value
    for before in context.parent.command.params:
        if set(before.opts) & set(option.opts) and before.name in context.parent.params:
            return context.parent.params[before.name]
    return value


def json_option(command: Function) -> Function:
    """Add --json."""
    return click.option(
        "--json", "as_json", is_flag=True, callback=_inherit_from_group, help="Print the answer as JSON."
    )(command)


def project_option(command: Function, project: str = "path") -> Function:
    """Add --path; `project` is the name of the function's parameter."""
    return click.option(
        "--path",
        project,
        default=CURRENT_FOLDER,
        metavar="DIR",
        callback=_inherit_from_group,
        help="The project. Default: the one that contains the current folder.",
    )(command)


def place_options(command: Function, project: str = "path") -> Function:
    """Add --path, --db and --global."""
    for option in (
        click.option(
            "--global",
            "global_store",
            is_flag=True,
            callback=_inherit_from_group,
            help="Use the store in ~/.deepwork, shared by all projects.",
        ),
        click.option(
            "--db",
            "database",
            metavar="PATH|URL",
            callback=_inherit_from_group,
            help="The store: a SQLite file or a postgresql:// URL.",
        ),
    ):
        command = option(command)
    return project_option(command, project)


key_option = click.option(
    "--idempotency-key",
    metavar="KEY",
    help="Re-running with the same key returns the first result instead of repeating the change.",
)

person_option = click.option(
    "--as-person",
    is_flag=True,
    help="Act as yourself, not as an agent: agents that it concerns get a notice. At a terminal, commands"
    " for people do so by default.",
)

# No option takes the passphrase itself: others can read command lines.
passphrase_option = click.option(
    "--passphrase-stdin", is_flag=True, help="Read your passphrase from standard input, as one line."
)


def refuse_misplaced(context: click.Context) -> None:
    """Refuse an option given before a subcommand that lacks it; click would ignore it silently."""
    group, name = context.command, context.invoked_subcommand or ""
    command = group.get_command(context, name) if isinstance(group, click.Group) else None
    known = {option for parameter in command.params for option in parameter.opts} if command else set()
    for parameter in group.params:
        is_given = context.get_parameter_source(parameter.name or "") != ParameterSource.DEFAULT
        if is_given and not known.intersection(parameter.opts):
            raise click.UsageError(f"{parameter.opts[0]} does not apply to {name}.", context)


def load_command_settings(path: str, *, quiet: bool = False, **flags: Any) -> Settings:
    """Load a project's settings; flags given on the command line override them.

    Unless `quiet`, standard error says which settings are ignored because nobody trusted them.
    """
    refuse_password(flags.get("database") or "")
    settings = load_settings(
        resolve_project(path), {name: None if value is False else value for name, value in flags.items()}
    )
    if settings.untrusted_keys and not quiet:
        from deepwork.kernel.user_settings import render_untrusted_line

        print(render_untrusted_line(settings.untrusted_keys), file=sys.stderr)
    return settings


def resolve_project(path: str) -> Path:
    """Return the given folder or, by default, the project that contains the current folder."""
    return find_project(Path.cwd()) if path == CURRENT_FOLDER else Path(path)


def refuse_password(location: str) -> None:
    """Refuse a password on the command line, where every user of the machine can read it."""
    credentials, at, _ = location.partition("://")[2].partition("@")
    if (at and ":" in credentials) or "password=" in location.lower():
        raise click.UsageError(
            "--db takes no password: other users could read it. "
            "Set DEEPWORK_DATABASE_URL, or use the PostgreSQL password file."
        )
