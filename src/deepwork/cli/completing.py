"""Completion: what a shell asks at every TAB, answered without importing the commands themselves.

`completion.json` tells what the commands take (`indexed` makes it, a test holds it to them); stand-ins made
from it let click do the rest.
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

from deepwork.cli.identifiers import identifiers

VARIABLE = "_DEEPWORK_COMPLETE"
INDEX = Path(__file__).with_name("completion.json")

_KINDS = {
    "agent_id": "agent", "sender_id": "agent", "recipient_id": "agent",
    "issue_id": "issue", "job_name": "job", "phase_id": "phase", "review_ids": "",
    "session_id": "session", "task_id": "task", "task_ids": "task", "template_id": "template",
    "message_ids": "message", "workflow_id": "plan", "from_workflow_id": "plan", "workspace_id": "workspace",
}  # fmt: skip
_OWN = {
    ("plans", "id"): "plan", ("tasks", "id"): "task", ("agents", "id"): "agent",
    ("messages", "id"): "message", ("workspaces", "id"): "workspace",
    ("jobs", "name"): "job", ("jobs", "targets"): "job",
    ("track", "workflow_id"): "record", ("track", "task_id"): "tracked_task", ("diff", "task_id"): "any_task",
}  # fmt: skip
"""What a parameter is where its name alone does not tell."""


def complete() -> None:
    """Answer the shell, and end."""
    index = json.loads(INDEX.read_text(encoding="utf-8"))
    sys.exit(shell_complete(_group("deepwork", index), {}, "deepwork", VARIABLE, os.environ[VARIABLE]))


def indexed(command: click.Command, words: tuple[str, ...] = ()) -> dict[str, Any]:
    """What there is to complete in a command and those below it, as plain data."""
    context = click.Context(command)
    found: dict[str, Any] = {}
    if params := [_about(parameter, words) for parameter in command.params]:
        found["params"] = params
    if isinstance(command, click.Group):
        names = [(name, command.get_command(context, name)) for name in command.list_commands(context)]
        found["commands"] = {name: indexed(each, (*words, name)) for name, each in names if each}
    else:
        found["help"] = command.get_short_help_str(80)
        if tool := getattr(command, "tool", ""):
            found["tool"] = tool
    return found


def _about(parameter: click.Parameter, words: tuple[str, ...]) -> dict[str, Any]:
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
    elif kind := _OWN.get((group, name)) or _KINDS.get(name) or _files(parameter):
        about["kind"] = kind
    return {key: value for key, value in about.items() if value not in (None, [], False)}


def _files(parameter: click.Parameter) -> str:
    said = parameter.metavar or ""
    if "DIR" in said:
        return "dir"
    return "file" if "FILE" in said or "PATH" in said or parameter.name == "file" else ""


def _group(name: str, index: Mapping[str, Any]) -> click.Command:
    params = [_parameter(about) for about in index.get("params", ())]
    if "commands" not in index:
        return click.Command(name, params=params, help=index.get("help"))
    return _StandIns(name, index["commands"], params)


class _StandIns(click.Group):
    """Commands that take what the real ones take, made when they are asked for."""

    def __init__(self, name: str, index: Mapping[str, Any], params: list[click.Parameter]) -> None:
        super().__init__(name, params=params, invoke_without_command=True)
        self._index = index

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self._index)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        return _group(cmd_name, self._index[cmd_name]) if cmd_name in self._index else None


def _parameter(about: Mapping[str, Any]) -> click.Parameter:
    name = about["name"]
    how: dict[str, Any] = {"nargs": about["nargs"]} if "nargs" in about else {}
    if "choices" in about:
        how["type"] = click.Choice(about["choices"], case_sensitive=False)
    if "kind" in about:
        how["shell_complete"] = partial(_found, about["kind"])
    if "opts" not in about:
        return click.Argument([name], required=False, **how)
    *others, last = about["opts"]
    names = [*others, "/".join([last, *about.get("off", [])]), name]
    if about.get("flag"):
        return click.Option(names, is_flag=True, help=about.get("help"))
    return click.Option(names, multiple=about.get("multiple", False), help=about.get("help"), **how)


def _found(
    kind: str, context: click.Context, parameter: click.Parameter, begun: str
) -> list[CompletionItem[str]]:
    if kind in ("file", "dir"):
        return [CompletionItem(begun, type=kind)]
    items = identifiers(
        kind,
        begun,
        project=_said(context, "--path") or ".",
        database=_said(context, "--db"),
        is_global=bool(_said(context, "--global")),
    )
    given = context.params.get(parameter.name or "")
    taken = given if isinstance(given, tuple) else ()
    return [CompletionItem(value, help=about) for value, about in items if value not in taken]


def _said(context: click.Context, option: str) -> Any:
    names = (each.name or "" for each in context.command.params if option in each.opts)
    return next((context.params.get(name) for name in names), None)


def _write() -> None:
    """Write down what the commands take now."""
    from deepwork.cli.main import deepwork

    INDEX.write_text(json.dumps(indexed(deepwork), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    _write()
