"""How the arguments of operations are read, with pydantic only where plain Python is not enough.

Accepts only values that pydantic would accept and leave as they are, or convert to an enum. Everything
else, valid or not, is left to pydantic, so that errors and conversions are the same for every call.
"""

from __future__ import annotations

import importlib
import importlib.util
import typing
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from math import inf
from typing import Any

Method = Callable[..., Any]


def get_hints(method: Method) -> dict[str, Any]:
    """Return the types of a method's parameters and answer.

    Input models are in the module `inputs` beside the tools, which imports them only for type checkers: they
    need pydantic.
    """
    package = method.__module__.rpartition(".")[0]
    has_inputs = importlib.util.find_spec(f"{package}.inputs") is not None
    names = vars(importlib.import_module(f"{package}.inputs")) if has_inputs else {}
    return typing.get_type_hints(method, localns=names, include_extras=True)


Check = Callable[[Any], Any]
Shape = Mapping[str, Any]


class NotPlain(Exception):
    """The value needs pydantic."""


class PlainArguments:
    """The parameters of one tool; `shapes` are what `describe_parameters` returned."""

    def __init__(self, shapes: Mapping[str, Shape]) -> None:
        self._checks = {name: build_check(shape) for name, shape in shapes.items()}
        self._required = frozenset(name for name, shape in shapes.items() if shape.get("required"))

    def convert(self, given: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the converted arguments; None if they need pydantic."""
        if not self._required <= given.keys():
            return None
        checks = self._checks
        try:
            return {name: checks[name](value) for name, value in given.items()}
        except (NotPlain, KeyError):
            return None


def build_check(shape: Shape) -> Check:
    """Build the function that converts a value of this shape, or raises NotPlain."""
    check = _BUILDERS[shape["type"]](shape)
    if not shape.get("nullable"):
        return check
    return lambda value: None if value is None else check(value)


def _build_text_check(shape: Shape) -> Check:
    strips, low, high = shape.get("strip_whitespace"), shape.get("min_length", 0), shape.get("max_length")

    def check(value: Any) -> str:
        if type(value) is not str:
            raise NotPlain
        size = len(value)
        if size < low or (high is not None and size > high) or (strips and value != value.strip()):
            raise NotPlain
        return value

    return check


def _build_integer_check(shape: Shape) -> Check:
    low, high = _get_range(shape)

    def check(value: Any) -> int:
        if type(value) is not int or not low <= value <= high:
            raise NotPlain
        return value

    return check


def _build_number_check(shape: Shape) -> Check:
    low, high = _get_range(shape)

    def check(value: Any) -> float:
        if type(value) not in (int, float) or not low <= value <= high or value - value != 0:
            raise NotPlain
        return float(value)

    return check


def _get_range(shape: Shape) -> tuple[float, float]:
    return shape.get("ge", -inf), shape.get("le", inf)


def _build_boolean_check(_: Shape) -> Check:
    def check(value: Any) -> bool:
        if type(value) is not bool:
            raise NotPlain
        return value

    return check


def _build_object_check(_: Shape) -> Check:
    def check(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise NotPlain
        return value

    return check


def _build_list_check(shape: Shape) -> Check:
    check_item, low, high = build_check(shape["items"]), shape.get("min_length", 0), shape.get("max_length")

    def check(value: Any) -> list[Any]:
        if type(value) is not list or len(value) < low or (high is not None and len(value) > high):
            raise NotPlain
        return [check_item(each) for each in value]

    return check


def _build_literal_check(shape: Shape) -> Check:
    words = frozenset(shape["words"])

    def check(value: Any) -> str:
        if type(value) is not str or value not in words:
            raise NotPlain
        return value

    return check


def _build_enum_check(shape: Shape) -> Check:
    path = shape["enum"]

    def check(value: Any) -> Any:
        member = _load_members(path).get(value) if type(value) is str else None
        if member is None:
            raise NotPlain
        return member

    return check


@cache
def _load_members(path: str) -> dict[str, Any]:
    """Load the members of an enum by value; its module is imported by the tool that takes it anyway."""
    module, _, name = path.partition(":")
    return {member.value: member for member in getattr(importlib.import_module(module), name)}


def _build_choice_check(shape: Shape) -> Check:
    """Build the check of a union; no value is plain for two of its choices, which have different types."""
    checks = [build_check(choice) for choice in shape["choices"]]

    def check(value: Any) -> Any:
        for each in checks:
            with suppress(NotPlain):
                return each(value)
        raise NotPlain

    return check


def _refuse(_: Any) -> Any:
    raise NotPlain


_BUILDERS: Mapping[str, Callable[[Shape], Check]] = {
    "str": _build_text_check,
    "int": _build_integer_check,
    "float": _build_number_check,
    "bool": _build_boolean_check,
    "dict": _build_object_check,
    "list": _build_list_check,
    "literal": _build_literal_check,
    "enum": _build_enum_check,
    "union": _build_choice_check,
    "model": lambda _: _refuse,
}
