"""Options that several commands share, in one order, with one meaning wherever they stand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from deepwork.config import Settings, load_settings, project_around

Function = TypeVar("Function", bound=Callable[..., Any])
HERE = "."


def _as_before(context: click.Context, option: click.Parameter, value: Any) -> Any:
    """Options count wherever they stand: `review --path DIR rules` and `review rules --path DIR`."""
    if context.parent is None or context.get_parameter_source(option.name or "") != ParameterSource.DEFAULT:
        return value
    for before in context.parent.command.params:
        if set(before.opts) & set(option.opts) and before.name in context.parent.params:
            return context.parent.params[before.name]
    return value


def json_option(command: Function) -> Function:
    """For whom the answer is."""
    return click.option(
        "--json", "as_json", is_flag=True, callback=_as_before, help="Print the answer as JSON."
    )(command)


def project_option(command: Function, project: str = "path") -> Function:
    """Which project; `project` is the name of the parameter that gets it."""
    return click.option(
        "--path", project, default=HERE, metavar="DIR", callback=_as_before,
        help="The project. Default: the one that this folder is in.",
    )(command)  # fmt: skip


def place_options(command: Function, project: str = "path") -> Function:
    """Which project, and which database."""
    for option in (
        click.option(
            "--global", "global_store", is_flag=True, callback=_as_before,
            help="Use ~/.deepwork, for all projects.",
        ),
        click.option(
            "--db", "database", metavar="PATH|URL", callback=_as_before,
            help="A SQLite file, or a postgresql:// URL.",
        ),
    ):  # fmt: skip
        command = option(command)
    return project_option(command, project)


key_option = click.option(
    "--idempotency-key", metavar="KEY", help="Repeating the command with this key changes nothing."
)


def refuse_misplaced(context: click.Context) -> None:
    """An option before a command that knows nothing of it would be lost without a word."""
    group, name = context.command, context.invoked_subcommand or ""
    command = group.get_command(context, name) if isinstance(group, click.Group) else None
    known = {option for parameter in command.params for option in parameter.opts} if command else set()
    for parameter in group.params:
        is_given = context.get_parameter_source(parameter.name or "") != ParameterSource.DEFAULT
        if is_given and not known.intersection(parameter.opts):
            raise click.UsageError(f"{parameter.opts[0]} means nothing for {name}.", context)


def settings_from(path: str, **flags: Any) -> Settings:
    """Settings of a project, with what the command line said; a flag not given leaves them alone."""
    refuse_password(flags.get("database") or "")
    return load_settings(
        project_at(path), {name: None if value is False else value for name, value in flags.items()}
    )


def project_at(path: str) -> Path:
    """The folder that was named; where none was, the project that this folder is in."""
    return project_around(Path.cwd()) if path == HERE else Path(path)


def refuse_password(location: str) -> None:
    """A password on the command line is readable for everybody on the machine."""
    credentials, at, _ = location.partition("://")[2].partition("@")
    if (at and ":" in credentials) or "password=" in location.lower():
        raise click.UsageError(
            "--db takes no password: other users could read it. "
            "Set DEEPWORK_DATABASE_URL, or use the PostgreSQL password file."
        )
