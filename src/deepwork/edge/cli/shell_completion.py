"""Completes commands in a shell.

`completion.json` describes the parameters of every command; `make docs` generates it. From this index we
build placeholder commands with the same parameters, and click completes those.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class, shell_complete

from deepwork.edge.cli.framework.id_resolution import list_identifiers

VARIABLE = "_DEEPWORK_COMPLETE"
INDEX = Path(__file__).with_name("completion.json")


def complete() -> None:
    """Print the completions that the shell asks for, and exit."""
    index = json.loads(INDEX.read_text(encoding="utf-8"))
    sys.exit(
        shell_complete(_build_command("deepwork", index), {}, "deepwork", VARIABLE, os.environ[VARIABLE])
    )


def _build_command(name: str, index: Mapping[str, Any]) -> click.Command:
    params = [_build_parameter(about) for about in index.get("params", ())]
    if "commands" not in index:
        return click.Command(name, params=params, help=index.get("help"))
    return _IndexGroup(name, index["commands"], params)


class _IndexGroup(click.Group):
    """A placeholder group, whose subcommands are built from the index on demand."""

    def __init__(self, name: str, index: Mapping[str, Any], params: list[click.Parameter]) -> None:
        super().__init__(name, params=params, invoke_without_command=True)
        self._index = index

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self._index)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        return _build_command(cmd_name, self._index[cmd_name]) if cmd_name in self._index else None


def _build_parameter(about: Mapping[str, Any]) -> click.Parameter:
    name = about["name"]
    how: dict[str, Any] = {"nargs": about["nargs"]} if "nargs" in about else {}
    if "choices" in about:
        how["type"] = click.Choice(about["choices"], case_sensitive=False)
    if "kind" in about:
        how["shell_complete"] = partial(_complete_value, about["kind"])
    if "opts" not in about:
        return click.Argument([name], required=False, **how)
    *others, last = about["opts"]
    names = [*others, "/".join([last, *about.get("off", [])]), name]
    if about.get("flag"):
        return click.Option(names, is_flag=True, help=about.get("help"))
    return click.Option(names, multiple=about.get("multiple", False), help=about.get("help"), **how)


def _complete_value(
    kind: str, context: click.Context, parameter: click.Parameter, begun: str
) -> list[CompletionItem[str]]:
    if kind in ("file", "dir"):
        return [CompletionItem(begun, type=kind)]
    items = list_identifiers(
        kind,
        begun,
        project=_get_option_value(context, "--path") or ".",
        database=_get_option_value(context, "--db"),
        is_global=bool(_get_option_value(context, "--global")),
    )
    given = context.params.get(parameter.name or "")
    taken = given if isinstance(given, tuple) else ()
    return [CompletionItem(value, help=about) for value, about in items if value not in taken]


def _get_option_value(context: click.Context, option: str) -> Any:
    names = (each.name or "" for each in context.command.params if option in each.opts)
    return next((context.params.get(name) for name in names), None)


_INSTRUCTIONS = {
    "bash": '# Put this into ~/.bashrc:  eval "$(deepwork completion bash)"',
    "zsh": '# Put this into ~/.zshrc, after compinit:  eval "$(deepwork completion zsh)"',
    "fish": "# Put this into ~/.config/fish/completions/deepwork.fish:  deepwork completion fish | source",
}


@click.command()
@click.argument("shell", type=click.Choice(list(_INSTRUCTIONS)))
def completion(shell: str) -> None:
    """Print a completion script for a shell; it completes commands, options and ids.

    bash, zsh: add eval "$(deepwork completion SHELL)" to ~/.bashrc, or to ~/.zshrc after compinit.

    fish: deepwork completion fish > ~/.config/fish/completions/deepwork.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None  # click supports all three
    script = kind(click.Group(), {}, "deepwork", VARIABLE).source()
    click.echo(f"{_INSTRUCTIONS[shell]}\n{script}")
