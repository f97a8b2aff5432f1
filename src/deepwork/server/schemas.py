"""JSON schemas made small: an agent pays for every word of them, in every session."""

from __future__ import annotations

from typing import Any

_NOISE = {"title", "additionalProperties", "minLength", "maxLength"}


def compact(schema: dict[str, Any]) -> dict[str, Any]:
    """The same schema without titles, references, nulls that mean "absent", or `anyOf`.

    Some model APIs refuse `anyOf` and `$ref`; nobody needs them for what our tools take.
    """
    definitions = schema.get("$defs", {})
    small: dict[str, Any] = _small(schema, definitions)
    small.setdefault("properties", {})
    return small


def _small(node: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_small(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        target = definitions[node["$ref"].rsplit("/", 1)[1]]
        node = {
            **{key: value for key, value in target.items() if key != "description"},
            **_without(node, "$ref"),
        }
    if "anyOf" in node:
        node = {**_without(node, "anyOf"), **_one_of(node, definitions)}
    return {
        key: {name: _small(inner, definitions) for name, inner in value.items()}
        if key == "properties"
        else _small(value, definitions)
        for key, value in node.items()
        if key not in _NOISE | {"$defs"} and not (key == "default" and value is None)
    }


def _one_of(node: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Alternatives as one schema: null means "absent" where absent is allowed, other types are listed."""
    choices = [_small(choice, definitions) for choice in node["anyOf"]]
    null_is_a_value = "default" not in node
    kept = [choice for choice in choices if null_is_a_value or choice.get("type") != "null"]
    if len(kept) == 1:
        return dict(kept[0])
    return {"type": [kind for choice in kept for kind in _as_list(choice["type"])]} | {
        key: value for choice in kept for key, value in choice.items() if key != "type"
    }


def _as_list(kind: Any) -> list[str]:
    return kind if isinstance(kind, list) else [kind]


def _without(node: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in node.items() if name != key}
