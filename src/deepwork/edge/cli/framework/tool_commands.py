"""Builds commands from tools: `agent_register` becomes `deepwork agents register`, from the same registry."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import click

from deepwork.edge.cli.framework.applications import (
    is_for_people,
    is_persons_command,
    is_typed,
    open_application,
    print_unnotified,
)
from deepwork.edge.cli.framework.id_resolution import resolve_arguments
from deepwork.edge.cli.framework.options import (
    CommandGroup,
    find_kind,
    format_short_help,
    is_stored,
    json_option,
    key_option,
    passphrase_option,
    person_option,
    place_options,
    sort_parameters,
)
from deepwork.edge.cli.framework.output import print_answer
from deepwork.edge.cli.framework.proofs import build_act_call
from deepwork.kernel.records import dataclass

if TYPE_CHECKING:
    from deepwork.edge.server.application import Application
    from deepwork.edge.server.registry import OperationSpec
    from deepwork.kernel.operations import Preset


@dataclass(frozen=True)
class CommandOverrides:
    """How a command differs from the one that would be generated from the tool's schema."""

    parameters: Mapping[str, click.Parameter] = field(default_factory=dict)
    """Parameters that replace the generated ones, by field of the schema."""
    note: str = ""
    """A paragraph to add to the help."""
    prepare: Callable[[dict[str, Any], bool], dict[str, Any]] = lambda arguments, _: arguments
    """Changes the tool's arguments; its second parameter is whether --json was given."""
    render: Callable[[Any], Sequence[str]] | None = None
    """Renders the answer as lines for people; None means a generic table."""
    reword: Callable[[Any, Mapping[str, Any]], Any] = lambda answer, _: answer
    """Words an answer for people; its second parameter is the tool's arguments."""
    complete: Callable[[Application, Any], Any] = lambda _, answer: answer
    """Adds to the answer what only people read, such as states."""
    is_by_person: bool = False
    """Whether it is a person's command, and so always acts as the person at this shell."""
    added: Sequence[click.Parameter] = ()
    """Parameters that the tool lacks; `prepare` or `extend` takes their values out of the arguments."""
    extend: Callable[[Application, OperationSpec, dict[str, Any]], OperationSpec] = lambda _, spec, __: spec
    """Returns the tool to call, which may do more than the original."""


class ToolGroup(CommandGroup):
    """A group of commands generated from a toolset; commands added by hand take precedence."""

    def __init__(
        self,
        name: str | None = None,
        tools: Sequence[str] = (),
        prefix: str = "",
        help: str | None = None,
        overrides: Mapping[str, CommandOverrides] | None = None,
        *,
        only: Collection[str] = (),
        aliases: Mapping[str, str] | None = None,
        **group: Any,
    ) -> None:
        """`tools`: the paths of classes of tools. `only`: include only these. `aliases`: more names."""
        super().__init__(name, help=help, **group)
        self._tools, self._only, self._prefix = tools, only, prefix
        self._overrides, self._aliases = overrides or {}, aliases or {}

    @cached_property
    def _specs(self) -> dict[str, tuple[OperationSpec, Preset | None]]:
        from deepwork.edge.server.registry import describe_class

        made: dict[str, tuple[OperationSpec, Preset | None]] = {}
        for tools in map(describe_class, self._tools):
            found = [spec for spec in tools.specs if not self._only or spec.name in self._only]
            verbs = {to_command_name(spec.name, self._prefix): spec for spec in found}
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
        overrides = self._overrides.get(cmd_name, CommandOverrides())
        return build_command(cmd_name, spec, overrides, preset, group=self.name or "")

    def build_help_rows(self, ctx: click.Context) -> list[tuple[str, str]]:
        """Return one row per tool with all its names, the shortest first."""
        names: dict[Any, list[str]] = {}
        for name in self.list_commands(ctx):
            spec, preset = self._specs.get(name, (None, None))
            is_own = spec is None or preset is not None or name in self.commands
            names.setdefault(name if is_own else spec.name, []).append(name)  # type: ignore[union-attr]
        listed = [sorted(each, key=len) for each in names.values()]
        found = [(each, self.get_command(ctx, each[0])) for each in listed]
        return sorted((", ".join(each), format_short_help(made)) for each, made in found if made is not None)


def to_command_name(tool: str, prefix: str) -> str:
    """Return a tool's name without its slice's prefix, with hyphens."""
    return tool.removeprefix(prefix).replace("_", "-")


class ToolCommand(click.Command):
    """A command generated from a tool."""

    tool: str = ""


def build_command(
    name: str,
    spec: OperationSpec,
    overrides: CommandOverrides,
    preset: Preset | None = None,
    *,
    group: str = "",
) -> click.Command:
    """Build a command from a tool: required fields become arguments, the others options.

    `group`: the name of its group, which tells what its ids stand for.
    """
    source = _Source(spec, overrides, preset, group)

    @partial(place_options, project="project")  # some tools have a parameter `path`
    @json_option
    def run(
        project: str,
        database: str | None,
        global_store: bool,
        as_json: bool,
        idempotency_key: str | None = None,
        as_person: bool = False,
        passphrase_stdin: bool = False,
        **given: Any,
    ) -> None:
        is_by_person = source.decide_who_acts(given, as_person=as_person)
        arguments = source.preset_arguments | _build_arguments(given)
        place = {"database": database, "global_store": global_store}
        with source.open_application(project, place, quiet=as_json) as app:
            known = resolve_arguments(app.database, group, overrides.prepare(arguments, as_json))
            bound = overrides.extend(app, app.build_toolset(spec.toolset)[spec.name], known)
            how = {"as_person": is_by_person, "passphrase_stdin": passphrase_stdin}
            answer = overrides.complete(app, call_tool(app, bound, known, idempotency_key, **how))
        _print(answer, known, overrides, as_json=as_json)
        if isinstance(answer, dict) and answer.get("success") is False:
            sys.exit(1)  # so that `&&` stops after a refusal, although that is a regular answer
        if not is_by_person and not as_json:
            print_unnotified(spec.name)

    made = click.command(name, cls=ToolCommand, help=source.build_help())(source.add_common_options(run))
    made.tool = spec.name
    made.params += [*_build_parameters(spec.input_schema, overrides, source.left_out), *overrides.added]
    return sort_parameters(made)


@dataclass(frozen=True)
class _Source:
    """What a command is built from."""

    spec: OperationSpec
    overrides: CommandOverrides
    preset: Preset | None
    group: str

    @property
    def preset_arguments(self) -> dict[str, Any]:
        return dict(self.preset.arguments) if self.preset else {}

    @property
    def left_out(self) -> set[str]:
        """Fields of the schema that the command does not offer."""
        return {*self.preset_arguments, *(self.preset.without if self.preset else ())}

    @property
    def _optional_fields(self) -> set[str]:
        schema = self.spec.input_schema
        return set(schema["properties"]) - set(schema.get("required", []))

    @property
    def _is_always_by_person(self) -> bool:
        return self.overrides.is_by_person or bool(self.preset and self.preset.as_person)

    def decide_who_acts(self, given: Mapping[str, Any], *, as_person: bool) -> bool:
        """Return whether the person at this shell acts, and not an agent."""
        acts_as = str(self.spec.declaration.acts_as)
        names_agent = acts_as in self._optional_fields and bool(given.get(acts_as))
        if names_agent and (as_person or (self.preset and self.preset.as_person)):
            raise click.UsageError("--agent-id and --as-person are mutually exclusive.")
        if as_person or self._is_always_by_person:
            return True
        return is_persons_command(self.spec, self.preset) and not names_agent and is_typed()

    def open_application(
        self, project: str, place: dict[str, Any], *, quiet: bool
    ) -> AbstractContextManager[Application]:
        """Open the application with the store that the tool needs."""
        return open_application(
            project,
            place,
            reads=_needs_no_new_store(self.spec, self.group),
            needs_session=_needs_session(self.spec),
            quiet=quiet or self.spec.toolset in _READ_FROM_FILES,
        )

    def add_common_options(self, run: Callable[..., None]) -> Callable[..., None]:
        """Add the options for repeated calls and for who acts, where the command has a use for them."""
        offers_agent = str(self.spec.declaration.acts_as) in self._optional_fields - self.left_out
        can_choose = offers_agent or is_for_people(self.spec)
        run = run if self.spec.read_only else key_option(run)
        if can_choose and not self._is_always_by_person:
            run = person_option(run)
        if (can_choose or self._is_always_by_person) and not self.spec.read_only:
            run = passphrase_option(run)
        return run

    def build_help(self) -> str:
        """Build the help: that of the preset or the tool, and a note."""
        text = self.preset.help if self.preset else _describe_tool(self.spec, self.overrides)
        return "\n\n".join(filter(None, [text, self.overrides.note]))


def _print(answer: Any, arguments: Mapping[str, Any], overrides: CommandOverrides, *, as_json: bool) -> None:
    worded = answer if as_json else overrides.reword(answer, arguments)
    if overrides.render is None or as_json:
        print_answer(worded, as_json=as_json)
    else:
        print("\n".join(overrides.render(worded)))


def call_tool(
    app: Application,
    spec: OperationSpec,
    arguments: Mapping[str, Any],
    key: str | None = None,
    *,
    as_person: bool = False,
    passphrase_stdin: bool = False,
) -> Any:
    """Call a tool of the application and return its answer."""
    from deepwork.edge.cli.framework.progress import ProgressLines
    from deepwork.edge.server.invocation import invoke
    from deepwork.kernel.call import LOCAL, Call
    from deepwork.kernel.database.idempotency import check_key
    from deepwork.kernel.values import copy_with

    checked = None if key is None else check_key(key)
    if as_person:
        call = build_act_call(spec.name, checked, passphrase_stdin=passphrase_stdin)
    else:
        call = Call(LOCAL, spec.name, checked, carries_notices=False)
    call = copy_with(call, report_progress=ProgressLines(), patience=None)
    return invoke(app.database, spec, arguments, call)


def _needs_no_new_store(spec: OperationSpec, group: str) -> bool:
    """Whether the tool only reads, or is about something that is stored, so that it fails without a store."""
    required = spec.input_schema.get("required", [])
    is_about_stored = any(is_stored(find_kind(group, field)) for field in required)
    return spec.read_only or (is_about_stored and spec.toolset != "jobs")


def _needs_session(spec: OperationSpec) -> bool:
    return spec.toolset == "jobs" and spec.name != "start_workflow"


def _build_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """Build the tool's arguments: the values given, and null for fields cleared by `--no-FIELD`."""
    clears = (name for name, value in given.items() if name.startswith(_CLEAR_PREFIX) and value)
    cleared = {name.removeprefix(_CLEAR_PREFIX): None for name in clears}
    values = {
        name: _to_json_value(value)
        for name, value in given.items()
        if value not in (None, ()) and not name.startswith(_CLEAR_PREFIX)
    }
    if both := values.keys() & cleared.keys():
        flag = f"--{min(both).replace('_', '-')}"
        raise click.UsageError(f"{flag} and --no-{flag[2:]} are mutually exclusive.")
    return values | cleared


_CLEAR_PREFIX = "clear_"
_READ_FROM_FILES = ("jobs", "reviews", "templates")
"""Toolsets whose tools have something to show without a store."""


def _describe_tool(spec: OperationSpec, overrides: CommandOverrides) -> str:
    """Build the help of a tool: its description, and the choices of its arguments."""
    shapes = spec.input_schema["properties"]
    choices = [
        f"{field.upper()}: {', '.join(shapes[field]['enum'])}."
        for field in spec.input_schema.get("required", [])
        if "enum" in shapes[field] and field not in overrides.parameters
    ]
    return "\n\n".join([spec.description, *choices])


def _build_parameters(
    schema: dict[str, Any], overrides: CommandOverrides, left_out: Collection[str]
) -> Iterator[click.Parameter]:
    for field_, shape in schema["properties"].items():
        if field_ in left_out:
            continue
        if field_ in overrides.parameters:
            yield overrides.parameters[field_]
        elif field_ in schema.get("required", []):
            yield _build_argument(field_, shape)
        else:
            yield from _build_options(field_, shape)


def _build_argument(field: str, shape: dict[str, Any]) -> click.Parameter:
    several = shape.get("type") == "array"
    name = f"{field.upper()}..." if several else field.upper()
    return click.Argument(
        [field], nargs=-1 if several else 1, required=True, type=_choose_type(shape), metavar=name
    )


def _build_options(field: str, shape: dict[str, Any]) -> Iterator[click.Parameter]:
    flag = f"--{field.replace('_', '-')}"
    text = " ".join(_build_remarks(shape)) or None
    kind = shape.get("type")
    if field == "path":  # `--path` is always the project; a tool's `path` is a file
        yield click.Argument([field], required=False, metavar="[FILE]")
    elif kind == "boolean":
        yield click.Option([f"{flag}/--no-{flag[2:]}", field], default=None, help=text)
    else:
        how: dict[str, Any] = {"multiple": kind == "array", "type": _choose_type(shape)}
        yield click.Option([flag, field], help=text, metavar=_choose_metavar(field, shape), **how)
    if isinstance(kind, list) and "null" in kind:
        yield click.Option([f"--no-{flag[2:]}", f"{_CLEAR_PREFIX}{field}"], is_flag=True, help="Clear it.")


def _choose_metavar(field: str, shape: dict[str, Any]) -> str | None:
    """Choose the placeholder for the value in the help; None for choices, which click lists."""
    shape = shape["items"] if shape.get("type") == "array" else shape
    if "enum" in shape:
        return None
    if field.endswith(("_id", "_ids")):
        return "ID"
    return {"integer": "N", "number": "N", "object": "JSON"}.get(str(shape.get("type")), "TEXT")


def _build_remarks(shape: dict[str, Any]) -> Iterator[str]:
    is_nullable = isinstance(shape.get("type"), list)
    if shape.get("description") and not is_nullable:  # it describes null, which has its own flag here
        yield f"{shape['description']}."
    if shape.get("properties"):
        yield f"Keys: {', '.join(shape['properties'])}."
    if shape.get("type") == "array":
        yield "Repeatable."
    if shape.get("default") is not None:
        default = shape["default"]
        yield f"Default: {('no', 'yes')[default] if isinstance(default, bool) else default}."


def _choose_type(shape: dict[str, Any]) -> click.ParamType[Any]:
    shape = shape["items"] if shape.get("type") == "array" else shape
    if "enum" in shape:
        return WordChoice(shape["enum"], case_sensitive=False)
    if shape.get("type") in ("integer", "number"):
        return click.INT if shape["type"] == "integer" else click.FLOAT
    return JsonParam() if shape.get("type") == "object" else click.STRING


class WordChoice(click.Choice[str]):
    """Words of an enum, which may be written with `-` for `_`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        is_known = value in self.choices or not isinstance(value, str)
        return super().convert(value if is_known else value.replace("-", "_"), param, ctx)


class JsonParam(click.ParamType[Any]):
    """A click parameter that takes JSON."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return json.loads(value)
        except ValueError as error:
            self.fail(f"not JSON: {error}", param, ctx)


def _to_json_value(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
