"""Compacts JSON schemas, because every agent pays tokens for them in every session."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

_DROPPED_KEYS = {"title", "additionalProperties", "minLength", "maxLength"}


def compact_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema without titles, `$ref`, `anyOf` and nulls that mean "absent".

    Some model APIs reject `anyOf` and `$ref`, and our tools do not need them.
    """
    definitions = schema.get("$defs", {})
    small: dict[str, Any] = _compact_node(schema, definitions)
    small.setdefault("properties", {})
    return small


def _compact_node(node: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_compact_node(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        target = definitions[node["$ref"].rsplit("/", 1)[1]]
        node = {
            **{key: value for key, value in target.items() if key != "description"},
            **_drop_key(node, "$ref"),
        }
    if "anyOf" in node:
        node = {**_drop_key(node, "anyOf"), **_merge_alternatives(node, definitions)}
    return {
        key: {name: _compact_node(inner, definitions) for name, inner in value.items()}
        if key == "properties"
        else _compact_node(value, definitions)
        for key, value in node.items()
        if key not in _DROPPED_KEYS | {"$defs"} and not (key == "default" and value is None)
    }


def _merge_alternatives(node: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Merge alternatives into one schema; null is dropped where the parameter may be absent."""
    choices = [_compact_node(choice, definitions) for choice in node["anyOf"]]
    null_is_a_value = "default" not in node
    kept = [choice for choice in choices if null_is_a_value or choice.get("type") != "null"]
    if len(kept) == 1:
        return dict(kept[0])
    return {"type": [kind for choice in kept for kind in _as_list(choice["type"])]} | {
        key: value for choice in kept for key, value in choice.items() if key != "type"
    }


def _as_list(kind: Any) -> list[str]:
    return kind if isinstance(kind, list) else [kind]


def _drop_key(node: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in node.items() if name != key}


_OBVIOUS_DEFAULTS: tuple[Any, ...] = (False, "", [], 0)
_LOWEST_OBVIOUS_LIMIT = 1000


def shorten_schema(schema: dict[str, Any], unlisted: Collection[str] | None = None) -> dict[str, Any]:
    """Return the schema as tools/list shows it: without defaults and limits that a model assumes anyway.

    The server checks them all the same, and its error names the limit. `unlisted` are keys inside the
    arguments that another tool lists and describes: they are left out, and so is what is said of the others.
    """
    short: dict[str, Any] = _shorten_node(schema)
    if unlisted is None:
        return short
    arguments = {name: _drop_repeated(node, unlisted) for name, node in short["properties"].items()}
    return {**short, "properties": arguments}


def _drop_repeated(node: Any, unlisted: Collection[str], depth: int = 0) -> Any:
    """Drop the unlisted keys of the models inside an argument, and what is said of their other keys."""
    if isinstance(node, list):
        return [_drop_repeated(item, unlisted, depth) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: {
            name: _drop_repeated(inner, unlisted, depth + 1)
            for name, inner in value.items()
            if name not in unlisted
        }
        if key == "properties"
        else _drop_repeated(value, unlisted, depth)
        for key, value in node.items()
        if not depth or key not in ("description", "default")
    }


def _shorten_node(node: Any) -> Any:
    if isinstance(node, list):
        return [_shorten_node(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: {name: _shorten_node(inner) for name, inner in value.items()}
        if key == "properties"
        else _shorten_node(value)
        for key, value in node.items()
        if not _is_obvious(key, value, node.get("type"))
    }


def _is_obvious(key: str, value: Any, type: Any) -> bool:
    if key == "default":
        return value in _OBVIOUS_DEFAULTS and value is not True
    if key == "exclusiveMinimum":
        return bool(value == 0)
    if key in ("minimum", "minItems"):
        return bool(value <= 1) and type != "number"
    return key in ("maximum", "maxItems") and bool(value >= _LOWEST_OBVIOUS_LIMIT)
