"""Every tool as plain data: what it is called, what it takes, what it does to the world.

Needs no MCP: the command line, the dashboard and the documentation read the same registry as the server.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from deepwork.server.complaints import complaint
from deepwork.server.schemas import compact
from deepwork.shapes import UNCHANGED, Traits, check_input


@dataclass(frozen=True)
class ToolSpec:
    """One tool."""

    name: str
    toolset: str
    method: Callable[..., Any]
    read_only: bool
    idempotent: bool
    destructive: bool
    read_only_if_asked: bool = False
    own_keys: bool = False

    @cached_property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.method)

    @cached_property
    def description(self) -> str:
        """What an agent reads before it calls."""
        return inspect.getdoc(self.method) or ""

    @cached_property
    def parameters(self) -> type[BaseModel]:
        """The arguments as a model, made from the method's signature."""
        hints = typing.get_type_hints(self.method, include_extras=True)
        fields: dict[str, Any] = {
            parameter.name: (hints[parameter.name], _default(parameter))
            for parameter in inspect.signature(self.method).parameters.values()
            if parameter.name != "self"
        }
        return create_model(self.name, __config__=ConfigDict(extra="forbid"), **fields)

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        """The arguments as a client sees them."""
        return compact(self.parameters.model_json_schema())

    @cached_property
    def output_schema(self) -> dict[str, Any] | None:
        """The answer as a client may see it; None where it is not one kind of object."""
        answer = typing.get_type_hints(self.method)["return"]
        if isinstance(answer, type) and issubclass(answer, BaseModel):
            return compact(answer.model_json_schema())
        return None

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """What the method is called with; whatever cannot be used is an error that names it."""
        check_input(dict(given))
        try:
            model = self.parameters.model_validate(given)
        except ValidationError as error:
            raise complaint(self.name, error, list(self.parameters.model_fields)) from None
        return {name: getattr(model, name) for name in model.model_fields_set}


class Tools(Protocol):
    """A class of tools: every public method is one."""

    traits: ClassVar[Traits]


def specs(tools: Tools | type[Tools]) -> list[ToolSpec]:
    """The tools that an object offers, or a class would."""
    traits = tools.traits
    return [
        ToolSpec(
            name, traits.toolset, method,
            read_only=name in traits.read_only,
            idempotent=name in traits.read_only | traits.idempotent,
            destructive=name in traits.destructive,
            read_only_if_asked=name in traits.read_only_if_asked,
            own_keys=name in traits.own_keys,
        )
        for name, method in inspect.getmembers(tools, inspect.isroutine)
        if not name.startswith("_")
    ]  # fmt: skip


def by_name(tools: Iterable[Tools]) -> dict[str, ToolSpec]:
    """Every tool of these objects, in the order of their names."""
    found = [spec for each in tools for spec in specs(each)]
    return {spec.name: spec for spec in sorted(found, key=lambda spec: spec.name)}


def _default(parameter: inspect.Parameter) -> Any:
    if parameter.default is UNCHANGED:
        # A default that the schema does not show: null is a value here, and only absence leaves things alone.
        return Field(default_factory=lambda: None)
    return ... if parameter.default is parameter.empty else parameter.default
