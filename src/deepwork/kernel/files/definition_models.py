"""Validates definition files with pydantic models, in messages that their authors can act on.

Editors use a JSON Schema that is generated from the same models, and the messages quote its descriptions.
Import this module where a definition is read, not at the start: building pydantic models takes time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Annotated, Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError, core_schema

from deepwork.kernel.files.problems import MAX_PROBLEMS, DefinitionProblem, Where, format_value, suggest_name
from deepwork.kernel.records import dataclass

Text = Annotated[str, Field(min_length=1, description="Text of at least one character.")]

Model = TypeVar("Model", bound=BaseModel)
_Rule = Mapping[str, Any]

_KINDS = {
    "string": "text",
    "array": "a list",
    "object": "a mapping",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
}


class DefinitionModel(BaseModel):
    """A mapping in a definition file; its docstring is what an author reads about it."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)


class OneOf:
    """Marks a union whose alternative is chosen by the type of the value, or by the keys of a mapping.

    So an error is about the alternative that the author probably meant, and not about all of them.
    """

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        choices = get_args(source)

        def choose(value: Any) -> str | None:
            return next((str(at) for at, choice in enumerate(choices) if _looks_like(value, choice)), None)

        return core_schema.tagged_union_schema(
            {str(at): handler.generate_schema(choice) for at, choice in enumerate(choices)},
            choose,
            custom_error_type="not_allowed_here",
            custom_error_message="This is not allowed here",
        )


class _SchemaGenerator(GenerateJsonSchema):
    """Generates schemas without titles and defaults of keys, which would only repeat the models."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        """Refuse names that do not match: pydantic only describes the values of those that do."""
        found = super().dict_schema(schema)
        for pattern, value in found.pop("patternProperties", {}).items():
            found["propertyNames"]["pattern"] = pattern
            found["additionalProperties"] = value
        return found


def build_problem(what: str, remedy: str) -> PydanticCustomError:
    """Build the error that a validator of a definition model raises."""
    return PydanticCustomError("problem", "A problem", {"what": what, "remedy": remedy})


def require_no_nul(word: str) -> str:
    """Validate a word of a command, which cannot contain NUL."""
    if "\0" in word:
        raise build_problem("this contains a NUL character", "leave it out")
    return word


@cache
def build_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Build the JSON Schema of a definition file, in the draft that editors know best."""
    built = model.model_json_schema(ref_template="#/definitions/{model}", schema_generator=_SchemaGenerator)
    definitions = built.pop("$defs", {})
    return {"$schema": "http://json-schema.org/draft-07/schema#", **built, "definitions": definitions}


def validate_data(model: type[Model], data: Any) -> tuple[Model | None, list[DefinitionProblem]]:
    """Return the data as a model, or else its first problems."""
    try:
        return model.model_validate(data), []
    except ValidationError as error:
        schema = build_schema(model)
        errors = error.errors(include_url=False)[:MAX_PROBLEMS]
        return None, [_to_problem(schema, each) for each in errors]


def _looks_like(value: Any, choice: Any) -> bool:
    """Return whether the author probably meant this alternative."""
    kind = choice.__origin__ if get_origin(choice) is Annotated else choice
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return isinstance(value, dict) and bool(value) and value.keys() <= kind.model_fields.keys()
    return isinstance(value, get_origin(kind) or kind)


@dataclass(frozen=True)
class _ErrorPlace:
    """Where an error is: its path in the document and the rules there."""

    where: Where
    parent: _Rule
    rule: _Rule
    is_name: bool = False
    """Whether the error is about the key itself, not about its value."""


def _to_problem(schema: _Rule, error: ErrorDetails) -> DefinitionProblem:
    kind, value, place = error["type"], error["input"], _locate(schema, error)
    where, rule = place.where, place.rule
    if kind == "missing":
        remedy = f"add it: {_describe_rule(rule)}"
        return DefinitionProblem(where[:-1], f"the key {where[-1]!r} is missing", remedy)
    if kind == "extra_forbidden":
        remedy = suggest_name(str(where[-1]), list(place.parent["properties"]))
        return DefinitionProblem(where, f"the key {format_value(where[-1])} is unknown", remedy)
    if kind == "problem":
        return DefinitionProblem(where, error["ctx"]["what"], error["ctx"]["remedy"])
    if place.is_name:
        return DefinitionProblem(where, *_explain_name(value, rule))
    if kind not in _WHAT or (kind == "literal_error" and not isinstance(value, str)):
        return DefinitionProblem(where, *_explain_type(value, rule))
    remedy = _REMEDIES[kind](value, rule) if kind in _REMEDIES else _describe_rule(rule)
    return DefinitionProblem(where, _WHAT[kind](value), remedy)


def _locate(schema: _Rule, error: ErrorDetails) -> _ErrorPlace:
    """Find the place of an error; pydantic adds the number of an alternative and `[key]` to its path."""
    place = _ErrorPlace((), {}, schema)
    for part in error["loc"]:
        if "oneOf" in place.rule:
            place = replace(place, rule=_resolve(schema, place.rule["oneOf"][int(part)]))
        elif part == "[key]" and "propertyNames" in place.parent and error["type"] != "extra_forbidden":
            place = replace(place, rule=place.parent["propertyNames"], is_name=True)
        else:
            inner = _resolve(schema, _get_inner_rule(place.rule, part))
            place = _ErrorPlace((*place.where, part), place.rule, inner)
    return place


def _resolve(schema: _Rule, rule: _Rule) -> _Rule:
    """Return the rule that a reference refers to; its own description takes precedence."""
    if "$ref" not in rule:
        return rule
    return {**schema["definitions"][rule["$ref"].rpartition("/")[2]], **rule}


def _get_inner_rule(rule: _Rule, part: str | int) -> _Rule:
    if isinstance(part, int):
        found: _Rule = rule["items"]
    else:
        found = rule.get("properties", {}).get(part) or rule.get("additionalProperties") or {}
    return found


def _explain_name(value: str, rule: _Rule) -> tuple[str, str]:
    if not value:
        return "the name is empty", "give it a name"
    return f"the name {format_value(value)} is not allowed", _describe_rule(rule)


def _explain_type(value: Any, rule: _Rule) -> tuple[str, str]:
    is_quotable = rule["type"] == "string" and isinstance(value, bool | int | float)
    what = f"this must be {_KINDS[rule['type']]}, not {_describe_value(value)}"
    return what, "put it in quotes" if is_quotable else _describe_rule(rule)


_WHAT: Mapping[str, Callable[[Any], str]] = {
    "string_too_short": lambda _: "this is empty",
    "string_too_long": lambda value: f"this has {len(value):,} characters",
    "string_pattern_mismatch": lambda value: f"{format_value(value)} is not allowed",
    "string_unicode": lambda _: "this is not valid Unicode",
    "literal_error": lambda value: f"{format_value(value)} is not known",
    "too_short": lambda value: f"this {_describe_value(value).removeprefix('a ')} is empty",
    "greater_than": lambda value: f"{value} is out of range",
    "greater_than_equal": lambda value: f"{value} is out of range",
    "less_than_equal": lambda value: f"{value} is out of range",
    "not_allowed_here": lambda value: f"{_describe_value(value)} like this is not allowed here",
}
"""What is wrong with a value, by the type of pydantic's error; any other error is about its type."""

_REMEDIES: Mapping[str, Callable[[Any, _Rule], str]] = {
    "string_too_long": lambda _, rule: f"at most {rule['maxLength']} are allowed",
    "literal_error": lambda value, rule: suggest_name(value, rule["enum"]),
    "too_short": lambda _value, _rule: "add at least one entry",
}
"""How to fix it, where the description of the value is not the best advice."""


def _describe_value(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"the number {value}"
    return {str: "text", list: "a list", dict: "a mapping", bool: "true or false"}.get(type(value), "nothing")


def _describe_rule(rule: _Rule) -> str:
    """Describe what a rule requires, as the end of a sentence."""
    text = rule.get("description") or f"write {_KINDS[rule['type']]}"
    return f"{text[:1].lower()}{text[1:]}".removesuffix(".")
