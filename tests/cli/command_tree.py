"""Walks the tree of commands, and converts a tool's arguments into command-line arguments."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner

from deepwork.edge.cli.framework.documents import DocumentParam
from deepwork.edge.cli.framework.tool_commands import ToolCommand
from deepwork.edge.cli.main import deepwork

Words = tuple[str, ...]


def walk_commands(
    command: click.Command = deepwork, words: Words = ()
) -> Iterator[tuple[Words, click.Command]]:
    """Yield every command and group with the words that call it."""
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name="deepwork")
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from walk_commands(below, (*words, name))


def is_runnable(command: click.Command) -> bool:
    return not isinstance(command, click.Group) or command.invoke_without_command


@cache
def map_tool_commands() -> dict[str, list[tuple[Words, ToolCommand]]]:
    """Return the commands of each tool."""
    found: dict[str, list[tuple[Words, ToolCommand]]] = {}
    for words, command in walk_commands():
        if isinstance(command, ToolCommand):
            found.setdefault(command.tool, []).append((words, command))
    return found


def build_arguments(command: click.Command, arguments: Mapping[str, Any], folder: Path) -> list[str] | None:
    """Build the command-line arguments for a tool's arguments; None if the command does not take them all."""
    by_name = {parameter.name: parameter for parameter in command.params}
    options: list[str] = []
    positional: dict[str, list[str]] = {}
    for name, value in arguments.items():
        parameter = by_name.get(f"clear_{name}" if value is None else name)
        if parameter is None:
            return None
        given = _format_value(parameter, value, folder)
        if isinstance(parameter, click.Argument):
            positional[name] = given
        else:
            options += given
    ordered = [word for name in by_name for word in positional.get(name or "", [])]
    return [*options, "--", *ordered]


def _format_value(parameter: click.Parameter, value: Any, folder: Path) -> list[str]:
    if isinstance(parameter, click.Option) and parameter.is_flag:
        return [parameter.opts[0] if value in (True, None) else parameter.secondary_opts[0]]
    if isinstance(parameter.type, DocumentParam):
        file = folder / f"{parameter.name}.json"
        file.write_text(json.dumps(value))
        return [str(file)]
    values: list[Any]
    if parameter.type.name == "name=value":
        values = [f"{key}={text}" for key, text in value.items()]
    else:
        values = value if isinstance(value, list) else [value]
    texts = [each if isinstance(each, str) else json.dumps(each) for each in values]
    if isinstance(parameter, click.Option):
        return [word for text in texts for word in (parameter.opts[0], text)]
    return texts


def run_command(words: Words, given: list[str], project: Path) -> Any:
    """Run a command and return its JSON answer; an error is raised."""
    ran = CliRunner().invoke(deepwork, [*words, "--path", str(project), "--json", *given])
    if ran.exception and not isinstance(ran.exception, SystemExit):
        raise ran.exception
    assert ran.stdout, ran.stderr
    return json.loads(ran.stdout)
