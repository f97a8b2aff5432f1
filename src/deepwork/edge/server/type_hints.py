"""Resolves the type hints of tools."""

from __future__ import annotations

import importlib
import importlib.util
import typing
from collections.abc import Callable
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
