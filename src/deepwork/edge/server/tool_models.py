"""What needs pydantic: models of parameters, JSON schemas, and arguments that are not plain."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from deepwork.edge.server.argument_errors import build_argument_error
from deepwork.edge.server.plain_arguments import get_hints
from deepwork.edge.server.schemas import compact_schema
from deepwork.kernel.answers import UNCHANGED, Answer, build_model


def build_parameters(name: str, method: Callable[..., Any]) -> type[BaseModel]:
    """Build a model of the arguments from the method's signature."""
    hints = get_hints(method)
    fields: dict[str, Any] = {
        parameter.name: (hints[parameter.name], _get_default(parameter))
        for parameter in inspect.signature(method).parameters.values()
        if parameter.name != "self"
    }
    return create_model(name, __config__=ConfigDict(extra="forbid"), **fields)


def _get_default(parameter: inspect.Parameter) -> Any:
    if parameter.default is UNCHANGED:
        # Hide the default in the schema: null is a value here, and only absence leaves things unchanged.
        return Field(default_factory=lambda: None)
    return ... if parameter.default is parameter.empty else parameter.default


def build_input_schema(parameters: type[BaseModel]) -> dict[str, Any]:
    return compact_schema(parameters.model_json_schema())


def build_output_schema(answer: Any) -> dict[str, Any] | None:
    """Build the JSON schema of an answer; None if the answer is not a single model."""
    if not isinstance(answer, type):
        return None
    if issubclass(answer, Answer):
        return compact_schema(build_model(answer).model_json_schema())
    return compact_schema(answer.model_json_schema()) if issubclass(answer, BaseModel) else None


def validate_with_model(name: str, parameters: type[BaseModel], given: Mapping[str, Any]) -> dict[str, Any]:
    """Validate arguments and return those that were given; an error names each invalid one."""
    try:
        model = parameters.model_validate(given)
    except ValidationError as error:
        raise build_argument_error(name, error, list(parameters.model_fields)) from None
    return {field: getattr(model, field) for field in model.model_fields_set}


def describe_parameters(parameters: type[BaseModel]) -> dict[str, dict[str, Any]]:
    """Describe the parameters for `PlainArguments`."""
    schema: Any = parameters.__pydantic_core_schema__
    while schema["type"] != "model-fields":
        schema = schema["schema"]
    return {
        name: _describe(field["schema"])
        | ({"required": True} if parameters.model_fields[name].is_required() else {})
        for name, field in schema["fields"].items()
    }


_LIMITS = ("strip_whitespace", "min_length", "max_length", "ge", "le")


def _describe(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Describe a core schema of pydantic; `model` stands for everything that only pydantic can validate."""
    kind = schema["type"]
    if kind == "default":
        return _describe(schema["schema"])
    if kind == "nullable":
        return {**_describe(schema["schema"]), "nullable": True}
    if kind in _SIMPLE_KINDS:
        return _describe_simple(schema)
    if kind == "union" and schema.keys() <= {"type", "choices", "metadata"}:
        return _describe_union([_describe(choice) for choice in schema["choices"]])
    return _describe_choice(schema)


_SIMPLE_KINDS = {"str", "int", "float", "bool", "list"}


def _describe_simple(schema: Mapping[str, Any]) -> dict[str, Any]:
    if not schema.keys() <= {"type", "items_schema", "metadata", *_LIMITS}:
        return _MODEL
    items = {"items": _describe(schema["items_schema"])} if schema["type"] == "list" else {}
    return {"type": schema["type"], **items, **{name: schema[name] for name in _LIMITS if name in schema}}


def _describe_choice(schema: Mapping[str, Any]) -> dict[str, Any]:
    kind = schema["type"]
    if kind == "enum":
        return {"type": "enum", "enum": f"{schema['cls'].__module__}:{schema['cls'].__qualname__}"}
    if kind == "literal" and all(isinstance(word, str) for word in schema["expected"]):
        return {"type": "literal", "words": list(schema["expected"])}
    is_object = kind == "dict" and schema["keys_schema"]["type"] == "str" and _accepts_any(schema)
    return {"type": "dict"} if is_object else _MODEL


_MODEL = {"type": "model"}


def _describe_union(choices: list[dict[str, Any]]) -> dict[str, Any]:
    """Describe a union; a value must not be plain for two of its choices."""
    kinds = [choice["type"] for choice in choices]
    is_plain = set(kinds) <= {"str", "dict", "list", "bool"} and len(set(kinds)) == len(kinds)
    return {"type": "union", "choices": choices} if is_plain else _MODEL


def _accepts_any(schema: Mapping[str, Any]) -> bool:
    return bool(schema["values_schema"]["type"] == "any")
