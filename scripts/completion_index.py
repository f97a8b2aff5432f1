"""Generates the index that shell completion reads; a test checks that it is up to date."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import click
from scripts.json_lines import render_json

from deepwork.edge.cli.framework.options import find_kind
from deepwork.edge.cli.main import deepwork
from deepwork.edge.cli.shell_completion import INDEX

_DEPTH_OF_COMMANDS = 4


def build_index(command: click.Command, words: tuple[str, ...] = ()) -> dict[str, Any]:
    """Describe the parameters and subcommands of a command as plain data, recursively."""
    context = click.Context(command)
    found: dict[str, Any] = {}
    if params := [_describe_parameter(parameter, words) for parameter in command.params]:
        found["params"] = params
    if isinstance(command, click.Group):
        names = [(name, command.get_command(context, name)) for name in command.list_commands(context)]
        found["commands"] = {name: build_index(each, (*words, name)) for name, each in names if each}
    else:
        found["help"] = command.get_short_help_str(80)
        if tool := getattr(command, "tool", ""):
            found["tool"] = tool
    return found


def _describe_parameter(parameter: click.Parameter, words: tuple[str, ...]) -> dict[str, Any]:
    name = parameter.name or ""
    group = words[0] if words else ""
    about: dict[str, Any] = {"name": name}
    if parameter.nargs != 1:
        about["nargs"] = parameter.nargs
    if isinstance(parameter, click.Option):
        about["opts"] = [*parameter.opts]
        about["off"] = [*parameter.secondary_opts]
        about["flag"] = parameter.is_flag
        about["multiple"] = parameter.multiple
        about["help"] = parameter.help
    if isinstance(parameter.type, click.Choice):
        about["choices"] = [str(choice) for choice in parameter.type.choices]
    elif kind := find_kind(group, name) or _infer_path_kind(parameter):
        about["kind"] = kind
    return {key: value for key, value in about.items() if value not in (None, [], False)}


def _infer_path_kind(parameter: click.Parameter) -> str:
    metavar = parameter.metavar or ""
    if "DIR" in metavar:
        return "dir"
    return "file" if "FILE" in metavar or "PATH" in metavar or parameter.name == "file" else ""


if __name__ == "__main__":
    INDEX.write_text(render_json(build_index(deepwork), _DEPTH_OF_COMMANDS), encoding="utf-8")
