"""Answers the shell at every TAB without importing the commands, because imports would make each TAB slow.

`completion.json` describes the parameters of every command. `build_index` generates it, and a test compares
the two. From this index we build placeholder commands with the same parameters, and click completes those.
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
from click.shell_completion import CompletionItem, shell_complete

from deepwork.cli.framework.identifiers import list_identifiers

VARIABLE = "_DEEPWORK_COMPLETE"
INDEX = Path(__file__).with_name("completion.json")

_KINDS = {
    "agent_id": "agent", "sender_id": "agent", "recipient_id": "agent",
    "issue_id": "issue", "job_name": "job", "phase_id": "phase", "review_ids": "",
    "session_id": "session", "task_id": "task", "task_ids": "task", "template_id": "template",
    "message_ids": "message", "workflow_id": "plan", "from_workflow_id": "plan", "workspace_id": "workspace",
}  # fmt: skip
_KINDS_BY_GROUP = {
    ("plans", "id"): "plan", ("tasks", "id"): "task", ("agents", "id"): "agent",
    ("messages", "id"): "message", ("workspaces", "id"): "workspace",
    ("jobs", "name"): "job", ("jobs", "targets"): "job",
    ("track", "workflow_id"): "record", ("track", "task_id"): "tracked_task", ("diff", "task_id"): "any_task",
}  # fmt: skip
"""(first word of the command, parameter) -> kind of value, where the parameter's name is ambiguous."""


def complete() -> None:
    """Print the completions that the shell asks for, and exit."""
    index = json.loads(INDEX.read_text(encoding="utf-8"))
    sys.exit(
        shell_complete(_build_command("deepwork", index), {}, "deepwork", VARIABLE, os.environ[VARIABLE])
    )


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
    elif kind := _KINDS_BY_GROUP.get((group, name)) or _KINDS.get(name) or _infer_path_kind(parameter):
        about["kind"] = kind
    return {key: value for key, value in about.items() if value not in (None, [], False)}


def _infer_path_kind(parameter: click.Parameter) -> str:
    metavar = parameter.metavar or ""
    if "DIR" in metavar:
        return "dir"
    return "file" if "FILE" in metavar or "PATH" in metavar or parameter.name == "file" else ""


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


def _write_index() -> None:
    """Regenerate `completion.json` from the commands."""
    from deepwork.cli.main import deepwork

    INDEX.write_text(json.dumps(build_index(deepwork), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    _write_index()
