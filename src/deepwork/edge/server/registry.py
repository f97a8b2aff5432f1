"""The registry of operations, and which tools a server offers.

Does not depend on MCP: the command line, the dashboard and the documentation use the same registry.
Imports pydantic only for what needs it: schemas that are not prepared, and arguments that are not plain.
"""

from __future__ import annotations

import importlib
import inspect
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from deepwork.edge.server.plain_arguments import Method, PlainArguments, get_hints
from deepwork.edge.server.prepared_tools import PreparedTool, find_prepared_class
from deepwork.edge.server.schemas import shorten_schema
from deepwork.kernel.answers import check_input
from deepwork.kernel.config import Settings
from deepwork.kernel.errors import DefinitionError
from deepwork.kernel.operations import InTransaction, OperationDeclaration, Traits, get_declaration
from deepwork.kernel.records import dataclass

if TYPE_CHECKING:
    from pydantic import BaseModel

_WORKFLOW_KINDS = {"jobs": "Job", "plans": "Plan", "tracking": "Track"}
"""By toolset, the first word of its tools' descriptions: `workflow` has three meanings."""


def _has_word(arguments: Mapping[str, Any], argument: str, word: str) -> bool:
    given = arguments.get(argument)
    return isinstance(given, str) and given.strip().lower() == word


@dataclass(frozen=True)
class OperationSpec:
    """The description of one tool: prepared, or computed from its method on first use."""

    name: str
    toolset: str
    declaration: OperationDeclaration
    one_transaction: bool
    find_method: Callable[[], Method] = field(compare=False)
    """Imports the tool's package on its first call."""
    prepared: PreparedTool | None = field(default=None, compare=False)

    @property
    def read_only(self) -> bool:
        return self.declaration.read_only

    def may_take_long(self, arguments: Mapping[str, Any]) -> bool:
        """Whether a call with these arguments, which are not validated yet, runs programs or waits."""
        declared = self.declaration
        return (
            declared.long_running
            or bool(declared.waits_with and arguments.get(declared.waits_with))
            or (declared.prepared_when is not None and _has_word(arguments, *declared.prepared_when))
        )

    @cached_property
    def method(self) -> Method:
        return self.find_method()

    @cached_property
    def description(self) -> str:
        """The docstring of the method, which agents read."""
        return self.prepared.description if self.prepared else inspect.getdoc(self.method) or ""

    @cached_property
    def listed_description(self) -> str:
        """The description as tools/list shows it: its first word says which kind of workflow is meant."""
        kind = _WORKFLOW_KINDS.get(self.toolset)
        is_marked = self.description.startswith(tuple(f"{word}:" for word in _WORKFLOW_KINDS.values()))
        return f"{kind}: {self.description}" if kind and not is_marked else self.description

    @cached_property
    def parameter_names(self) -> tuple[str, ...]:
        return tuple(self.prepared.shapes if self.prepared else self.parameters.model_fields)

    @cached_property
    def parameters(self) -> type[BaseModel]:
        """A model of the arguments, created from the method's signature."""
        from deepwork.edge.server.tool_models import build_parameters  # noqa: PLC0415 - imports pydantic

        return build_parameters(self.name, self.method)

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments."""
        if self.prepared:
            return self.prepared.input_schema
        from deepwork.edge.server.tool_models import build_input_schema  # noqa: PLC0415 - imports pydantic

        return build_input_schema(self.parameters)

    @cached_property
    def listed_schema(self) -> dict[str, Any]:
        """The schema of the arguments as tools/list shows it, where every token counts."""
        return shorten_schema(self.input_schema, self.declaration.unlisted)

    @cached_property
    def output_schema(self) -> dict[str, Any] | None:
        """The JSON schema of the answer; None if the answer is not a single model."""
        if self.prepared:
            return self.prepared.output_schema
        from deepwork.edge.server.tool_models import build_output_schema  # noqa: PLC0415 - imports pydantic

        return build_output_schema(self.answer_type)

    @cached_property
    def answer_type(self) -> Any:
        """The type of the answer."""
        answer = self._return_type
        return typing.get_args(answer)[0] if self.ends_in_transaction else answer

    @cached_property
    def ends_in_transaction(self) -> bool:
        """Whether every call stores its answer in the database in a last transaction."""
        if self.prepared:
            return self.prepared.ends_in_transaction
        return typing.get_origin(self._return_type) is InTransaction

    @cached_property
    def _return_type(self) -> Any:
        return get_hints(self.method)["return"]

    @cached_property
    def _plain_arguments(self) -> PlainArguments | None:
        return PlainArguments(self.prepared.shapes) if self.prepared else None

    def validate_arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Validate arguments and return those that were given; an error names each invalid one."""
        check_input(dict(given))
        plain = None if self._plain_arguments is None else self._plain_arguments.convert(given)
        if plain is not None:
            return plain
        from deepwork.edge.server.tool_models import validate_with_model  # noqa: PLC0415 - imports pydantic

        return validate_with_model(self.name, self.parameters, given)


class Tools(Protocol):
    """A class whose public methods are tools."""

    traits: ClassVar[Traits]


@dataclass(frozen=True)
class ToolClass:
    """The tools of one class; a method found through it is not bound to an object."""

    traits: Traits
    specs: list[OperationSpec]


@cache
def describe_class(path: str) -> ToolClass:
    """Describe a class of tools, given as `module:name`; a prepared description does not import it."""
    prepared = find_prepared_class(path)
    if prepared is None:
        tools = import_class(path)
        return ToolClass(tools.traits, list_specs(tools))
    traits = prepared.traits
    return ToolClass(
        traits,
        [
            OperationSpec(
                tool.name,
                traits.toolset,
                tool.declaration,
                traits.one_transaction,
                partial(_import_method, path, tool.name),
                tool,
            )
            for tool in prepared.tools
        ],
    )


def import_class(path: str) -> type[Tools]:
    """Import a class of tools, given as `module:name`."""
    module, _, name = path.partition(":")
    found: type[Tools] = getattr(importlib.import_module(module), name)
    return found


def list_specs(tools: Tools | type[Tools]) -> list[OperationSpec]:
    """List the tools of an object or class."""
    traits = tools.traits
    return [
        OperationSpec(name, traits.toolset, get_declaration(method), traits.one_transaction, _return(method))
        for name, method in inspect.getmembers(tools, inspect.isroutine)
        if not name.startswith("_")
    ]


def index_by_name(tools: Iterable[Tools]) -> dict[str, OperationSpec]:
    """Return the tools of these objects by name, sorted."""
    found = [spec for each in tools for spec in list_specs(each)]
    return {spec.name: spec for spec in sorted(found, key=lambda spec: spec.name)}


def _import_method(path: str, name: str) -> Method:
    method: Method = getattr(import_class(path), name)
    return method


def _return(method: Method) -> Callable[[], Method]:
    return lambda: method


def select_tools(registry: Mapping[str, OperationSpec], settings: Settings) -> dict[str, OperationSpec]:
    """Select the tools allowed by --toolsets, --tools, --exclude-tools and --read-only."""
    toolsets = {spec.toolset for spec in registry.values()}
    _require_known("toolset", settings.toolsets, toolsets | {"all"})
    _require_known("tool", (*settings.tools, *settings.exclude_tools), registry)
    return {
        name: spec
        for name, spec in registry.items()
        if ("all" in settings.toolsets or spec.toolset in settings.toolsets)
        and (not settings.tools or name in settings.tools)
        and name not in settings.exclude_tools
        and (spec.read_only or spec.declaration.offered_on_read_only_server or not settings.read_only)
    }


def _require_known(kind: str, names: Sequence[str], known: Iterable[str]) -> None:
    if unknown := sorted(set(names) - set(known)):
        raise DefinitionError(
            f"There is no {kind} {unknown[0]!r}.", suggestion=f"The {kind}s are: {', '.join(sorted(known))}."
        )
