"""Checks definition files by the JSON Schemas that are generated from their pydantic models.

Importing pydantic and building the models takes longer than all else in a first call. The usual file is
valid, and is recognized here. Whatever else it is, the models decide, and they alone say what is wrong.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

_Rule = Mapping[str, Any]


def is_surely_valid(schema_file: Path, data: Any) -> bool:
    """Return whether the models accept this data; False also if that is not certain."""
    schema = _load_schema(schema_file)
    return _follows(schema, schema, data)


@cache
def _load_schema(file: Path) -> _Rule:
    schema: _Rule = json.loads(file.read_text(encoding="utf-8"))
    return schema


def _follows(schema: _Rule, rule: _Rule, value: Any) -> bool:
    if "$ref" in rule:
        return _follows(schema, schema["definitions"][rule["$ref"].rpartition("/")[2]], value)
    if choices := rule.get("oneOf") or rule.get("anyOf"):
        return any(_follows(schema, choice, value) for choice in choices)
    return (
        type(value) in _TYPES.get(rule.get("type", ""), ())
        and all(_follows_keyword(key, limit, value) for key, limit in rule.items())
        and (type(value) is not str or value.isascii() or _is_unicode(value))
        and (type(value) is not list or all(_follows(schema, rule["items"], item) for item in value))
        and (type(value) is not dict or _has_valid_entries(schema, rule, value))
    )


def _follows_keyword(key: str, limit: Any, value: Any) -> bool:
    if key in _CHECKS:
        return _CHECKS[key](value, limit)
    return key in _OTHER_KEYWORDS


def _has_valid_entries(schema: _Rule, rule: _Rule, entries: Mapping[str, Any]) -> bool:
    known, others = rule.get("properties", {}), rule["additionalProperties"]
    names = {"type": "string", **rule.get("propertyNames", {})}
    for name, value in entries.items():
        inner = known.get(name) or others
        if not (inner and _follows(schema, names, name) and _follows(schema, inner, value)):
            return False
    return True


_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "array": (list,),
    "object": (dict,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}
_CHECKS: Mapping[str, Callable[[Any, Any], bool]] = {
    "required": lambda value, names: value.keys() >= set(names),
    "const": lambda value, only: value == only,
    "enum": lambda value, allowed: value in allowed,
    "minLength": lambda value, least: len(value) >= least,
    "maxLength": lambda value, most: len(value) <= most,
    "minItems": lambda value, least: len(value) >= least,
    "minProperties": lambda value, least: len(value) >= least,
    "minimum": lambda value, least: value >= least,
    "maximum": lambda value, most: value <= most,
    "exclusiveMinimum": lambda value, below: value > below,
    # Two engines read patterns alike if the text is ASCII and all of it must match.
    "pattern": lambda value, pattern: value.isascii() and bool(re.fullmatch(pattern, value, re.ASCII)),
}
_OTHER_KEYWORDS = frozenset(
    ("$schema", "definitions", "title", "description", "type", "items", "properties", "additionalProperties")
) | {"propertyNames"}
"""Keywords that are checked elsewhere here, or require nothing. Data under any other is not surely valid."""


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
