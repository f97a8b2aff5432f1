"""Validates definition files against a shipped JSON Schema, with messages that their authors can act on.

Editors and loaders use the same schema, so they cannot disagree.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

Where = tuple[str | int, ...]
Rule = Mapping[str, Any]

_MAX_SHOWN = 80
_MAX_LISTED = 20
_MAX_COMPARED = 500  # comparing spellings is slow, and a file may contain thousands of names
_KINDS: dict[str, tuple[type, str]] = {
    "string": (str, "text"),
    "array": (list, "a list"),
    "object": (dict, "a mapping"),
    "boolean": (bool, "true or false"),
    "integer": (int, "a whole number"),
}


@dataclass(frozen=True)
class SchemaProblem:
    """A problem at a path in a file, and how to fix it."""

    where: Where
    what: str
    remedy: str
    also: Where = ()
    """Another path this problem depends on: if that is malformed, this may not be a problem."""

    def __str__(self) -> str:
        path = " -> ".join(_format_part(part) for part in self.where)
        return f"{path or 'root'}: {self.what}; {self.remedy}{'' if self.remedy.endswith('?') else '.'}"


class SchemaValidator:
    """Validates data against one JSON Schema."""

    def __init__(self, schema_file: Path) -> None:
        self.schema_file = schema_file

    @cached_property
    def schema(self) -> Rule:
        """The JSON Schema."""
        loaded: Rule = json.loads(self.schema_file.read_text(encoding="utf-8"))
        return loaded

    def find_problems(self, data: Any) -> Iterator[SchemaProblem]:
        """Yield the problems of a document."""
        return self._find_problems(data, self.schema, ())

    def is_valid(self, value: Any, definition: str) -> bool:
        """Return whether a value satisfies the named definition of the schema."""
        return not any(self._find_problems(value, self.schema["definitions"][definition], ()))

    def _find_problems(self, value: Any, rule: Rule, where: Where) -> Iterator[SchemaProblem]:
        rule = self._resolve_reference(rule)
        if "oneOf" in rule:
            return self._check_alternatives(value, rule, where)
        kind, word = _KINDS[rule["type"]]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            return iter(
                [
                    SchemaProblem(
                        where, f"this must be {word}, not {_describe_value(value)}", _suggest_fix(value, rule)
                    )
                ]
            )
        checks: dict[str, Callable[[Any, Rule, Where], Iterator[SchemaProblem]]] = {
            "string": _check_text,
            "array": self._check_list,
            "object": self._check_mapping,
            "boolean": _check_bool,
            "integer": _check_number,
        }
        return checks[rule["type"]](value, rule, where)

    def _resolve_reference(self, rule: Rule) -> Rule:
        if "$ref" not in rule:
            return rule
        found: Rule = self.schema["definitions"][rule["$ref"].rpartition("/")[2]]
        return found

    def _check_alternatives(self, value: Any, rule: Rule, where: Where) -> Iterator[SchemaProblem]:
        fitting = [
            choice for choice in map(self._resolve_reference, rule["oneOf"]) if _looks_like(value, choice)
        ]
        if len(fitting) == 1:
            return self._find_problems(value, fitting[0], where)
        return iter(
            [
                SchemaProblem(
                    where, f"{_describe_value(value)} like this is not allowed here", _describe_rule(rule)
                )
            ]
        )

    def _check_list(self, value: list[Any], rule: Rule, where: Where) -> Iterator[SchemaProblem]:
        if len(value) < rule.get("minItems", 0):
            yield SchemaProblem(where, "this list is empty", "add at least one entry")
        for index, item in enumerate(value):
            yield from self._find_problems(item, rule["items"], (*where, index))

    def _check_mapping(self, value: dict[str, Any], rule: Rule, where: Where) -> Iterator[SchemaProblem]:
        known = rule.get("properties", {})
        for key in rule.get("required", ()):
            if key not in value:
                remedy = f"add it: {_describe_rule(self._resolve_reference(known[key]))}"
                yield SchemaProblem(where, f"the key {key!r} is missing", remedy)
        if len(value) < rule.get("minProperties", 0):
            yield SchemaProblem(where, "this mapping is empty", "add at least one entry")
        for key, item in value.items():
            yield from self._check_key(key, item, rule, where)

    def _check_key(self, key: str, item: Any, rule: Rule, where: Where) -> Iterator[SchemaProblem]:
        known, others = rule.get("properties", {}), rule["additionalProperties"]
        naming = rule.get("propertyNames", {})
        if len(key) < naming.get("minLength", 0):
            yield SchemaProblem((*where, key), "the name is empty", "give it a name")
        elif "pattern" in naming and not re.fullmatch(naming["pattern"], key):
            yield SchemaProblem(
                (*where, key), f"the name {format_value(key)} is not allowed", _describe_rule(naming)
            )
        if key in known:
            yield from self._find_problems(item, known[key], (*where, key))
        elif others is False:
            yield SchemaProblem(
                (*where, key), f"the key {format_value(key)} is unknown", suggest_name(key, list(known))
            )
        else:
            yield from self._find_problems(item, others, (*where, key))


def format_value(value: str | int) -> str:
    """Format a value from a file for a message: quoted and shortened."""
    text = str(value)
    return repr(text) if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]!r}…"


def suggest_name(word: str, words: Sequence[str]) -> str:
    """Suggest the most similar word, or list the allowed ones."""
    near = find_nearest(word, words)
    return f"allowed: {format_list(words)}" if near is None else f"did you mean {near!r}?"


def find_nearest(word: str, words: Sequence[str]) -> str | None:
    """Return the most similar word, if there is one."""
    comparable = [known for known in words[:_MAX_COMPARED] if len(known) <= _MAX_SHOWN]
    return next(iter(get_close_matches(word[:_MAX_SHOWN], comparable, 1)), None)


def format_list(words: Sequence[str]) -> str:
    """Format words as a list, with the number of those left out."""
    row = ", ".join(map(format_value, words[:_MAX_LISTED])) or "none"
    more = len(words) - _MAX_LISTED
    return f"{row} and {more:,} more" if more > 0 else row


def _format_part(part: str | int) -> str:
    text = str(part)
    return text if text.isprintable() and 0 < len(text) <= _MAX_SHOWN else format_value(text)


def _looks_like(value: Any, rule: Rule) -> bool:
    """Return whether the author probably meant this alternative."""
    if not isinstance(value, _KINDS[rule["type"]][0]):
        return False
    return not isinstance(value, dict) or (value.keys() <= rule["properties"].keys() and value != {})


def _check_text(value: str, rule: Rule, where: Where) -> Iterator[SchemaProblem]:
    if "enum" in rule and value not in rule["enum"]:
        yield SchemaProblem(where, f"{format_value(value)} is not known", suggest_name(value, rule["enum"]))
    elif len(value) < rule.get("minLength", 0):
        yield SchemaProblem(where, "this is empty", _describe_rule(rule))
    elif len(value) > rule.get("maxLength", len(value)):
        yield SchemaProblem(
            where, f"this has {len(value):,} characters", f"at most {rule['maxLength']} are allowed"
        )
    # Not `search`: `$` would accept a trailing line break.
    elif "pattern" in rule and not re.fullmatch(rule["pattern"], value):
        yield SchemaProblem(where, f"{format_value(value)} is not allowed", _describe_rule(rule))


def _check_bool(value: bool, rule: Rule, where: Where) -> Iterator[SchemaProblem]:  # noqa: ARG001
    return iter(())


def _check_number(value: int, rule: Rule, where: Where) -> Iterator[SchemaProblem]:
    if not rule.get("minimum", value) <= value <= rule.get("maximum", value):
        yield SchemaProblem(where, f"{value} is out of range", _describe_rule(rule))


def _describe_value(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"the number {value}"
    return {str: "text", list: "a list", dict: "a mapping", bool: "true or false"}.get(type(value), "nothing")


def _suggest_fix(value: Any, rule: Rule) -> str:
    if rule["type"] == "string" and isinstance(value, bool | int | float):
        return "put it in quotes"
    return _describe_rule(rule)


def _describe_rule(rule: Rule) -> str:
    """Describe what a rule requires, as the end of a sentence."""
    text = rule.get("description") or f"write {_KINDS[rule['type']][1]}"
    return f"{text[:1].lower()}{text[1:]}".removesuffix(".")
