"""The tools as commands: `agent_register` is `deepwork agents register`, made from the same registry."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
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
from deepwork.shapes import Preset


@dataclass(frozen=True)
class Form:
    """How a verb differs from what its schema would make of it."""

    parameters: Mapping[str, click.Parameter] = field(default_factory=dict)
    """What stands in the place of a field of the schema."""
    note: str = ""
    """What its help says in addition."""
    arrange: Callable[[dict[str, Any], bool], dict[str, Any]] = lambda arguments, _: arguments
    """The tool's arguments, made from what was given, and from whether the answer is wanted as JSON."""
    present: Callable[[Any], Sequence[str]] | None = None
    """The answer as lines for a person."""


class Verbs(click.Group):
    """The commands of one toolset; those added to it go before those made from the tools."""

    def __init__(
        self,
        name: str,
        tools: type[Tools] | Sequence[type[Tools]],
        prefix: str,
        help: str,
        forms: Mapping[str, Form] | None = None,
    ) -> None:
        super().__init__(name, help=help)
        self._tools = [tools] if isinstance(tools, type) else tools
        self._prefix, self._forms = prefix, forms or {}

    @cached_property
    def _specs(self) -> dict[str, tuple[ToolSpec, Preset | None]]:
        made: dict[str, tuple[ToolSpec, Preset | None]] = {}
        for tools in self._tools:
            verbs = {verb(spec.name, self._prefix): spec for spec in specs(tools)}
            made |= {name: (spec, None) for name, spec in verbs.items()}
            made |= {alias: (verbs[name], None) for alias, name in tools.traits.aliases.items()}
            made |= {name: (verbs[preset.verb], preset) for name, preset in tools.traits.presets.items()}
        return made

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted({*self._specs, *self.commands})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if own := super().get_command(ctx, cmd_name):
            return own
        if cmd_name not in self._specs:
            return None
        spec, preset = self._specs[cmd_name]
        return command(cmd_name, spec, self._forms.get(cmd_name, Form()), preset)


def verb(tool: str, prefix: str) -> str:
    """A tool's verb: its name without the prefix of its slice."""
    return tool.removeprefix(prefix).replace("_", "-")


def command(name: str, spec: ToolSpec, form: Form, preset: Preset | None = None) -> click.Command:
    """A tool as a command: what it requires as arguments, the rest as options."""
    schema = spec.input_schema
    required = schema.get("required", [])
    settled = dict(preset.arguments) if preset else {}
    left_out = settled.keys() | (preset.without if preset else set())
    parameters = [
        form.parameters.get(field)
        or (_argument(field, shape) if field in required else _option(field, shape))
        for field, shape in schema["properties"].items()
        if field not in left_out
    ]

    @partial(place_options, project="project")  # `path` is the parameter of some tools
    @click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
    @click.option(
        "--idempotency-key", metavar="KEY", help="Repeating the command with this key changes nothing."
    )
    def run(
        project: str,
        database: str | None,
        global_store: bool,
        as_json: bool,
        idempotency_key: str | None,
        **given: Any,
    ) -> None:
        house = House(settings_from(project, database=database, global_store=global_store))
        key = None if idempotency_key is None else check_key(idempotency_key)
        arguments = settled | {
            field: _value(value) for field, value in given.items() if value not in (None, ())
        }
        try:
            answer = invoke(
                house.database,
                house.toolset(spec.toolset)[spec.name],
                form.arrange(arguments, as_json),
                Call("local", spec.name, key),
            )
        finally:
            house.close()
        if form.present is None or as_json:
            show(answer, as_json=as_json)
        else:
            print("\n".join(form.present(answer)))
        if isinstance(answer, dict) and answer.get("success") is False:
            sys.exit(1)  # a refusal is an answer, but whoever goes on after `&&` must not

    told = preset.help if preset else _help(spec, form)
    made = click.command(name, help="\n\n".join(filter(None, [told, form.note])))(run)
    made.params = [*sorted(parameters, key=lambda p: not isinstance(p, click.Argument)), *made.params]
    return made


def _help(spec: ToolSpec, form: Form) -> str:
    """What the tool does, and which words its arguments may be."""
    shapes = spec.input_schema["properties"]
    choices = [
        f"{field.upper()}: {', '.join(shapes[field]['enum'])}."
        for field in spec.input_schema.get("required", [])
        if "enum" in shapes[field] and field not in form.parameters
    ]
    return "\n\n".join([spec.description, *choices])


def _argument(field: str, shape: dict[str, Any]) -> click.Parameter:
    several = shape.get("type") == "array"
    name = f"{field.upper()}..." if several else field.upper()
    return click.Argument([field], nargs=-1 if several else 1, required=True, type=_kind(shape), metavar=name)


def _option(field: str, shape: dict[str, Any]) -> click.Parameter:
    # `--path` is the project everywhere; what a tool calls a path is a file.
    flag = "--file" if field == "path" else f"--{field.replace('_', '-')}"
    text = " ".join(_remarks(shape))
    if shape.get("type") == "boolean":
        return click.Option([f"{flag}/--no-{flag[2:]}", field], default=None, help=text)
    return click.Option(
        [flag, field], multiple=shape.get("type") == "array", type=_kind(shape), help=text.strip() or None
    )


def _remarks(shape: dict[str, Any]) -> Iterator[str]:
    if shape.get("description"):
        yield f"{shape['description']}."
    if shape.get("properties"):
        yield f"Keys: {', '.join(shape['properties'])}."
    if shape.get("default") is not None:
        default = shape["default"]
        yield f"Default: {('no', 'yes')[default] if isinstance(default, bool) else default}."


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
