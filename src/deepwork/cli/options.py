"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from deepwork.config import Settings, load_settings

Function = TypeVar("Function", bound=Callable[..., Any])


def place_options(command: Function, project: str = "path") -> Function:
    """Which project, and which database; `project` is the name of the parameter that gets the former."""
    for option in (
        click.option(
            "--path", project, default=".", metavar="DIR", help="The project. Default: this folder."
        ),
        click.option("--db", "database", metavar="PATH|URL", help="A SQLite file, or a postgresql:// URL."),
        click.option("--global", "global_store", is_flag=True, help="Use ~/.deepwork, for all projects."),
    ):
        command = option(command)
    return command


def settings_from(path: str, **flags: Any) -> Settings:
    """Settings of a project, with what the command line said; a flag not given leaves them alone."""
    refuse_password(flags.get("database") or "")
    return load_settings(path, {name: None if value is False else value for name, value in flags.items()})


def refuse_password(location: str) -> None:
    """A password on the command line is readable for everybody on the machine."""
    credentials, at, _ = location.partition("://")[2].partition("@")
    if (at and ":" in credentials) or "password=" in location.lower():
        raise click.UsageError(
            "--db takes no password: other users could read it. "
            "Set DEEPWORK_DATABASE_URL, or use the PostgreSQL password file."
        )
