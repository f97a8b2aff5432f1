"""The tools as commands: `agent_register` is `deepwork agents register`, made from the same registry."""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any

import click

from deepwork.agents.tools import AgentTools
from deepwork.cli.options import place_options, settings_from
from deepwork.cli.output import show
from deepwork.database.call import Call
from deepwork.database.idempotency import check_key
from deepwork.messages.tools import MessageTools
from deepwork.server.house import House
from deepwork.server.invocation import invoke
from deepwork.server.registry import Tools, ToolSpec, specs


class Verbs(click.Group):
    """The commands of one toolset."""

    def __init__(self, name: str, tools: type[Tools], prefix: str, help: str) -> None:
        super().__init__(name, help=help)
        self._tools, self._prefix = tools, prefix

    @cached_property
    def _specs(self) -> dict[str, ToolSpec]:
        verbs = {verb(spec.name, self._prefix): spec for spec in specs(self._tools)}
        return verbs | {alias: verbs[name] for alias, name in self._tools.traits.aliases.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self._specs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        spec = self._specs.get(cmd_name)
        return None if spec is None else command(cmd_name, spec)


def verb(tool: str, prefix: str) -> str:
    """A tool's verb: its name without the prefix of its slice."""
    return tool.removeprefix(prefix).replace("_", "-")


def command(name: str, spec: ToolSpec) -> click.Command:
    """A tool as a command: what it requires as arguments, the rest as options."""
    schema = spec.input_schema
    required = schema.get("required", [])
    parameters = [
        _argument(field, shape) if field in required else _option(field, shape)
        for field, shape in schema["properties"].items()
    ]

    @place_options
    @click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
    @click.option(
        "--idempotency-key", metavar="KEY", help="Repeating the command with this key changes nothing."
    )
    def run(
        path: str,
        database: str | None,
        global_store: bool,
        as_json: bool,
        idempotency_key: str | None,
        **given: Any,
    ) -> None:
        house = House(settings_from(path, database=database, global_store=global_store))
        key = None if idempotency_key is None else check_key(idempotency_key)
        arguments = {field: _value(value) for field, value in given.items() if value not in (None, ())}
        try:
            answer = invoke(
                house.database,
                house.toolset(spec.toolset)[spec.name],
                arguments,
                Call("local", spec.name, key),
            )
        finally:
            house.close()
        show(answer, as_json=as_json)

    made = click.command(name, help=_help(spec))(run)
    made.params = [*sorted(parameters, key=lambda p: not isinstance(p, click.Argument)), *made.params]
    return made


def _help(spec: ToolSpec) -> str:
    """What the tool does, and which words its arguments may be."""
    shapes = spec.input_schema["properties"]
    choices = [
        f"{field.upper()}: {', '.join(shapes[field]['enum'])}."
        for field in spec.input_schema.get("required", [])
        if "enum" in shapes[field]
    ]
    return "\n\n".join([spec.description, *choices])


def _argument(field: str, shape: dict[str, Any]) -> click.Parameter:
    several = shape.get("type") == "array"
    name = f"{field.upper()}..." if several else field.upper()
    return click.Argument([field], nargs=-1 if several else 1, required=True, type=_kind(shape), metavar=name)


def _option(field: str, shape: dict[str, Any]) -> click.Parameter:
    flag = f"--{field.replace('_', '-')}"
    default = f" Default: {shape['default']}." if shape.get("default") is not None else ""
    text = (shape.get("description", "") + "." if shape.get("description") else "") + default
    if shape.get("type") == "boolean":
        return click.Option([f"{flag}/--no-{flag[2:]}", field], default=None, help=text)
    return click.Option(
        [flag, field], multiple=shape.get("type") == "array", type=_kind(shape), help=text.strip() or None
    )


def _kind(shape: dict[str, Any]) -> click.ParamType[Any]:
    shape = shape["items"] if shape.get("type") == "array" else shape
    if "enum" in shape:
        return click.Choice(shape["enum"], case_sensitive=False)
    if shape.get("type") == "integer":
        return click.INT
    return Object() if shape.get("type") == "object" else click.STRING


class Object(click.ParamType[Any]):
    """A JSON object."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return json.loads(value)
        except ValueError as error:
            self.fail(f"not JSON: {error}", param, ctx)


def _value(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


agents = Verbs("agents", AgentTools, "agent_", "Agents: who works, and whether they live.")
messages = Verbs("messages", MessageTools, "message_", "Messages between agents.")
