"""Describes every tool as data: name, parameters, schemas and effects.

Does not depend on MCP: the command line, the dashboard and the documentation use the same registry.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from deepwork.server.argument_errors import build_argument_error
from deepwork.server.schemas import compact_schema
from deepwork.tool_declarations import InTransaction, ToolDeclaration, Traits, get_declaration
from deepwork.tool_types import UNCHANGED, check_input


@dataclass(frozen=True)
class ToolSpec:
    """The description of one tool."""

    name: str
    toolset: str
    method: Callable[..., Any]
    declaration: ToolDeclaration
    one_transaction: bool

    @property
    def read_only(self) -> bool:
        return self.declaration.read_only

    @cached_property
    def description(self) -> str:
        """The docstring of the method, which agents read."""
        return inspect.getdoc(self.method) or ""

    @cached_property
    def parameters(self) -> type[BaseModel]:
        """A model of the arguments, created from the method's signature."""
        hints = typing.get_type_hints(self.method, include_extras=True)
        fields: dict[str, Any] = {
            parameter.name: (hints[parameter.name], _get_default(parameter))
            for parameter in inspect.signature(self.method).parameters.values()
            if parameter.name != "self"
        }
        return create_model(self.name, __config__=ConfigDict(extra="forbid"), **fields)

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments."""
        return compact_schema(self.parameters.model_json_schema())

    @cached_property
    def output_schema(self) -> dict[str, Any] | None:
        """The JSON schema of the answer; None if the answer is not a single model."""
        return compact_schema(self.answer_model.model_json_schema()) if self.answer_model else None

    @cached_property
    def answer_model(self) -> type[BaseModel] | None:
        """The model of the answer; None if the answer is not a single model."""
        answer = self._return_type
        if self.ends_in_transaction:
            (answer,) = typing.get_args(answer)
        return answer if isinstance(answer, type) and issubclass(answer, BaseModel) else None

    @cached_property
    def ends_in_transaction(self) -> bool:
        """Whether every call stores its answer in the database in a last transaction."""
        return typing.get_origin(self._return_type) is InTransaction

    @cached_property
    def _return_type(self) -> Any:
        return typing.get_type_hints(self.method)["return"]

    def validate_arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Validate arguments and return those that were given; an error names each invalid one."""
        check_input(dict(given))
        try:
            model = self.parameters.model_validate(given)
        except ValidationError as error:
            raise build_argument_error(self.name, error, list(self.parameters.model_fields)) from None
        return {name: getattr(model, name) for name in model.model_fields_set}


class Tools(Protocol):
    """A class whose public methods are tools."""

    traits: ClassVar[Traits]


def list_specs(tools: Tools | type[Tools]) -> list[ToolSpec]:
    """List the tools of an object or class."""
    traits = tools.traits
    return [
        ToolSpec(name, traits.toolset, method, get_declaration(method), traits.one_transaction)
        for name, method in inspect.getmembers(tools, inspect.isroutine)
        if not name.startswith("_")
    ]


def index_by_name(tools: Iterable[Tools]) -> dict[str, ToolSpec]:
    """Return the tools of these objects by name, sorted."""
    found = [spec for each in tools for spec in list_specs(each)]
    return {spec.name: spec for spec in sorted(found, key=lambda spec: spec.name)}


def _get_default(parameter: inspect.Parameter) -> Any:
    if parameter.default is UNCHANGED:
        # Hide the default in the schema: null is a value here, and only absence leaves things unchanged.
        return Field(default_factory=lambda: None)
    return ... if parameter.default is parameter.empty else parameter.default
