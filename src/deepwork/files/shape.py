"""The shape of somebody's file: what a shipped JSON Schema says of it, in words its writer can act on.

Editors and loaders go by the same schema, so they cannot disagree.
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

_LONGEST_SHOWN = 80
_MOST_LISTED = 20
_MOST_COMPARED = 500  # comparing spellings is slow, and a file may name thousands
_KINDS: dict[str, tuple[type, str]] = {
    "string": (str, "text"),
    "array": (list, "a list"),
    "object": (dict, "a mapping"),
    "boolean": (bool, "true or false"),
    "integer": (int, "a whole number"),
}


@dataclass(frozen=True)
class Problem:
    """What is wrong at a place in somebody's file, and what to do about it."""

    where: Where
    what: str
    remedy: str
    also: Where = ()
    """Another part it rests on: when that is malformed, this may be no problem at all."""

    def __str__(self) -> str:
        path = " -> ".join(_part(part) for part in self.where)
        return f"{path or 'root'}: {self.what}; {self.remedy}{'' if self.remedy.endswith('?') else '.'}"


class Shape:
    """What one schema asks for."""

    def __init__(self, schema_file: Path) -> None:
        self.schema_file = schema_file

    @cached_property
    def schema(self) -> Rule:
        """The JSON Schema."""
        loaded: Rule = json.loads(self.schema_file.read_text(encoding="utf-8"))
        return loaded

    def problems(self, data: Any) -> Iterator[Problem]:
        """Where a document departs from the schema."""
        return self._problems(data, self.schema, ())

    def fits(self, value: Any, definition: str) -> bool:
        """Whether a value is what the schema calls by that name."""
        return not any(self._problems(value, self.schema["definitions"][definition], ()))

    def _problems(self, value: Any, rule: Rule, where: Where) -> Iterator[Problem]:
        rule = self._resolved(rule)
        if "oneOf" in rule:
            return self._of_alternatives(value, rule, where)
        kind, word = _KINDS[rule["type"]]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            return iter([Problem(where, f"this must be {word}, not {_what(value)}", _advice(value, rule))])
        checks: dict[str, Callable[[Any, Rule, Where], Iterator[Problem]]] = {
            "string": _of_text,
            "array": self._of_list,
            "object": self._of_mapping,
            "boolean": _of_truth,
            "integer": _of_number,
        }
        return checks[rule["type"]](value, rule, where)

    def _resolved(self, rule: Rule) -> Rule:
        if "$ref" not in rule:
            return rule
        found: Rule = self.schema["definitions"][rule["$ref"].rpartition("/")[2]]
        return found

    def _of_alternatives(self, value: Any, rule: Rule, where: Where) -> Iterator[Problem]:
        fitting = [choice for choice in map(self._resolved, rule["oneOf"]) if _looks_like(value, choice)]
        if len(fitting) == 1:
            return self._problems(value, fitting[0], where)
        return iter([Problem(where, f"{_what(value)} like this has no meaning here", _expected(rule))])

    def _of_list(self, value: list[Any], rule: Rule, where: Where) -> Iterator[Problem]:
        if len(value) < rule.get("minItems", 0):
            yield Problem(where, "this list is empty", "add at least one entry")
        for index, item in enumerate(value):
            yield from self._problems(item, rule["items"], (*where, index))

    def _of_mapping(self, value: dict[str, Any], rule: Rule, where: Where) -> Iterator[Problem]:
        known = rule.get("properties", {})
        for key in rule.get("required", ()):
            if key not in value:
                remedy = f"add it: {_expected(self._resolved(known[key]))}"
                yield Problem(where, f"the key {key!r} is missing", remedy)
        if len(value) < rule.get("minProperties", 0):
            yield Problem(where, "this mapping is empty", "add at least one entry")
        for key, item in value.items():
            yield from self._of_key(key, item, rule, where)

    def _of_key(self, key: str, item: Any, rule: Rule, where: Where) -> Iterator[Problem]:
        known, others = rule.get("properties", {}), rule["additionalProperties"]
        naming = rule.get("propertyNames", {})
        if len(key) < naming.get("minLength", 0):
            yield Problem((*where, key), "the name is empty", "give it a name")
        elif "pattern" in naming and not re.fullmatch(naming["pattern"], key):
            yield Problem((*where, key), f"the name {shown(key)} is not allowed", _expected(naming))
        if key in known:
            yield from self._problems(item, known[key], (*where, key))
        elif others is False:
            yield Problem((*where, key), f"the key {shown(key)} is unknown", did_you_mean(key, list(known)))
        else:
            yield from self._problems(item, others, (*where, key))


def shown(value: str | int) -> str:
    """A value from somebody's file, safe and short enough for a message."""
    text = str(value)
    return repr(text) if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]!r}…"


def did_you_mean(word: str, words: Sequence[str]) -> str:
    """The word most like it, or what the words are."""
    near = nearest(word, words)
    return f"allowed are {listed(words)}" if near is None else f"did you mean {near!r}?"


def nearest(word: str, words: Sequence[str]) -> str | None:
    """The word most like it, if there is one."""
    comparable = [known for known in words[:_MOST_COMPARED] if len(known) <= _LONGEST_SHOWN]
    return next(iter(get_close_matches(word[:_LONGEST_SHOWN], comparable, 1)), None)


def listed(words: Sequence[str]) -> str:
    """Words in a row, and how many were left out."""
    row = ", ".join(map(shown, words[:_MOST_LISTED])) or "none"
    more = len(words) - _MOST_LISTED
    return f"{row} and {more:,} more" if more > 0 else row


def _part(part: str | int) -> str:
    text = str(part)
    return text if text.isprintable() and 0 < len(text) <= _LONGEST_SHOWN else shown(text)


def _looks_like(value: Any, rule: Rule) -> bool:
    """Whether somebody who wrote this meant that alternative."""
    if not isinstance(value, _KINDS[rule["type"]][0]):
        return False
    return not isinstance(value, dict) or (value.keys() <= rule["properties"].keys() and value != {})


def _of_text(value: str, rule: Rule, where: Where) -> Iterator[Problem]:
    if "enum" in rule and value not in rule["enum"]:
        yield Problem(where, f"{shown(value)} is not known", did_you_mean(value, rule["enum"]))
    elif len(value) < rule.get("minLength", 0):
        yield Problem(where, "this is empty", _expected(rule))
    elif len(value) > rule.get("maxLength", len(value)):
        yield Problem(
            where, f"this has {len(value):,} characters", f"at most {rule['maxLength']} are allowed"
        )
    # Not a search: `$` would let a line break slip through.
    elif "pattern" in rule and not re.fullmatch(rule["pattern"], value):
        yield Problem(where, f"{shown(value)} is not allowed", _expected(rule))


def _of_truth(value: bool, rule: Rule, where: Where) -> Iterator[Problem]:  # noqa: ARG001
    return iter(())


def _of_number(value: int, rule: Rule, where: Where) -> Iterator[Problem]:
    if not rule.get("minimum", value) <= value <= rule.get("maximum", value):
        yield Problem(where, f"{value} is out of range", _expected(rule))


def _what(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"the number {value}"
    return {str: "text", list: "a list", dict: "a mapping", bool: "true or false"}.get(type(value), "nothing")


def _advice(value: Any, rule: Rule) -> str:
    if rule["type"] == "string" and isinstance(value, bool | int | float):
        return "put it in quotes"
    return _expected(rule)


def _expected(rule: Rule) -> str:
    """What a rule asks for, as the end of a sentence."""
    text = rule.get("description") or f"write {_KINDS[rule['type']][1]}"
    return f"{text[:1].lower()}{text[1:]}".removesuffix(".")
