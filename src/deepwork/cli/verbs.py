"""The tools as commands: `agent_register` is `deepwork agents register`, made from the same registry."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import click

from deepwork.cli.groups import Group, arranged, told
from deepwork.cli.options import json_option, key_option, place_options, settings_from
from deepwork.cli.output import show

if TYPE_CHECKING:
    from deepwork.server.application import Application
    from deepwork.server.registry import Tools, ToolSpec
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


class Verbs(Group):
    """The commands of one toolset; those added to it go before those made from the tools."""

    def __init__(
        self,
        name: str | None = None,
        tools: Callable[[], Sequence[type[Tools]]] = list,
        prefix: str = "",
        help: str | None = None,
        forms: Mapping[str, Form] | None = None,
        *,
        only: Collection[str] = (),
        aliases: Mapping[str, str] | None = None,
        **group: Any,
    ) -> None:
        """`tools`: asked for when needed. `only`: these of them. `aliases`: further, friendly names."""
        super().__init__(name, help=help, **group)
        self._tools, self._only, self._prefix = tools, only, prefix
        self._forms, self._aliases = forms or {}, aliases or {}

    @cached_property
    def _specs(self) -> dict[str, tuple[ToolSpec, Preset | None]]:
        from deepwork.server.registry import specs

        made: dict[str, tuple[ToolSpec, Preset | None]] = {}
        for tools in self._tools():
            found = [spec for spec in specs(tools) if not self._only or spec.name in self._only]
            verbs = {verb(spec.name, self._prefix): spec for spec in found}
            made |= {name: (spec, None) for name, spec in verbs.items()}
            friendly = {**tools.traits.aliases, **self._aliases}
            made |= {alias: (verbs[name], None) for alias, name in friendly.items() if name in verbs}
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

    def rows(self, ctx: click.Context) -> list[tuple[str, str]]:
        """One row for all names of one thing, the friendliest first."""
        names: dict[Any, list[str]] = {}
        for name in self.list_commands(ctx):
            spec, preset = self._specs.get(name, (None, None))
            is_own = spec is None or preset is not None or name in self.commands
            names.setdefault(name if is_own else spec.name, []).append(name)  # type: ignore[union-attr]
        listed = [sorted(each, key=len) for each in names.values()]
        found = [(each, self.get_command(ctx, each[0])) for each in listed]
        return sorted((", ".join(each), told(made)) for each, made in found if made is not None)


def verb(tool: str, prefix: str) -> str:
    """A tool's verb: its name without the prefix of its slice."""
    return tool.removeprefix(prefix).replace("_", "-")


class Verb(click.Command):
    """A tool as a command."""

    tool: str = ""


def command(name: str, spec: ToolSpec, form: Form, preset: Preset | None = None) -> click.Command:
    """A tool as a command: what it requires as arguments, the rest as options."""
    schema = spec.input_schema
    required = schema.get("required", [])
    settled = dict(preset.arguments) if preset else {}
    left_out = settled.keys() | (preset.without if preset else set())
    parameters: list[click.Parameter] = []
    for field_, shape in schema["properties"].items():
        if field_ in left_out:
            continue
        if field_ in form.parameters:
            parameters.append(form.parameters[field_])
        elif field_ in required:
            parameters.append(_argument(field_, shape))
        else:
            parameters += _options(field_, shape)

    @partial(place_options, project="project")  # `path` is the parameter of some tools
    @json_option
    def run(
        project: str,
        database: str | None,
        global_store: bool,
        as_json: bool,
        idempotency_key: str | None = None,
        **given: Any,
    ) -> None:
        from deepwork.server.application import Application

        app = Application(settings_from(project, database=database, global_store=global_store))
        arguments = settled | _arguments(given)
        try:
            answer = ask(app, spec, form.arrange(arguments, as_json), idempotency_key)
        finally:
            app.close()
        if form.present is None or as_json:
            show(answer, as_json=as_json)
        else:
            print("\n".join(form.present(answer)))
        if isinstance(answer, dict) and answer.get("success") is False:
            sys.exit(1)  # a refusal is an answer, but whoever goes on after `&&` must not

    said = preset.help if preset else _help(spec, form)
    run = run if spec.read_only else key_option(run)
    made = click.command(name, cls=Verb, help="\n\n".join(filter(None, [said, form.note])))(run)
    made.tool = spec.name
    made.params += parameters
    return arranged(made)


def ask(app: Application, spec: ToolSpec, arguments: Mapping[str, Any], key: str | None = None) -> Any:
    """The tool's answer, whether it is asynchronous or not."""
    from deepwork.database.call import Call
    from deepwork.database.idempotency import check_key
    from deepwork.server.invocation import invoke, invoke_async

    bound = app.toolset(spec.toolset)[spec.name]
    call = Call("local", spec.name, None if key is None else check_key(key))
    if not spec.is_async:
        return invoke(app.database, bound, arguments, call)
    import asyncio

    return asyncio.run(invoke_async(bound, arguments, call, app.database))


def _arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """What the tool is given: what was said, and null where something is to be cleared."""
    clears = (name for name, value in given.items() if name.startswith(_CLEAR) and value)
    cleared = {name.removeprefix(_CLEAR): None for name in clears}
    said = {
        name: _value(value)
        for name, value in given.items()
        if value not in (None, ()) and not name.startswith(_CLEAR)
    }
    if both := said.keys() & cleared.keys():
        flag = f"--{min(both).replace('_', '-')}"
        raise click.UsageError(f"{flag} and --no-{flag[2:]} exclude each other.")
    return said | cleared


_CLEAR = "clear_"


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


def _options(field: str, shape: dict[str, Any]) -> Iterator[click.Parameter]:
    flag = f"--{field.replace('_', '-')}"
    text = " ".join(_remarks(shape)) or None
    kind = shape.get("type")
    if field == "path":  # `--path` is the project everywhere; what a tool calls a path is a file
        yield click.Argument([field], required=False, metavar="[FILE]")
    elif kind == "boolean":
        yield click.Option([f"{flag}/--no-{flag[2:]}", field], default=None, help=text)
    else:
        how: dict[str, Any] = {"multiple": kind == "array", "type": _kind(shape)}
        yield click.Option([flag, field], help=text, metavar=_metavar(field, shape), **how)
    if isinstance(kind, list) and "null" in kind:
        yield click.Option([f"--no-{flag[2:]}", f"{_CLEAR}{field}"], is_flag=True, help="Clear it.")


def _metavar(field: str, shape: dict[str, Any]) -> str | None:
    """What stands for the value in its help; choices are listed there instead."""
    shape = shape["items"] if shape.get("type") == "array" else shape
    if "enum" in shape:
        return None
    if field.endswith(("_id", "_ids")):
        return "ID"
    return {"integer": "N", "number": "N", "object": "JSON"}.get(str(shape.get("type")), "TEXT")


def _remarks(shape: dict[str, Any]) -> Iterator[str]:
    is_nullable = isinstance(shape.get("type"), list)
    if shape.get("description") and not is_nullable:  # what null does, a flag of its own does here
        yield f"{shape['description']}."
    if shape.get("properties"):
        yield f"Keys: {', '.join(shape['properties'])}."
    if shape.get("type") == "array":
        yield "Give it once for each."
    if shape.get("default") is not None:
        default = shape["default"]
        yield f"Default: {('no', 'yes')[default] if isinstance(default, bool) else default}."


def _kind(shape: dict[str, Any]) -> click.ParamType[Any]:
    shape = shape["items"] if shape.get("type") == "array" else shape
    if "enum" in shape:
        return click.Choice(shape["enum"], case_sensitive=False)
    if shape.get("type") in ("integer", "number"):
        return click.INT if shape["type"] == "integer" else click.FLOAT
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
