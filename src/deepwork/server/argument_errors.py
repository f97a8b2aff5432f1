"""Turns pydantic validation errors into messages that name the parameter."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from deepwork.errors import InvalidInput

MAX_NAMED = 5
MAX_SHOWN = 60


def build_argument_error(tool: str, error: ValidationError, parameters: Sequence[str]) -> InvalidInput:
    """Build one error that lists every problem, so that a caller can fix them all before the next call."""
    problems = [format_problem(dict(problem), parameters) for problem in error.errors(include_url=False)]
    more = f" And {len(problems) - MAX_NAMED} more." if len(problems) > MAX_NAMED else ""
    taken = ", ".join(parameters) or "none"
    return InvalidInput(
        " ".join(problems[:MAX_NAMED]) + more,
        suggestion=f"Correct this and call {tool} again. Its parameters: {taken}.",
    )


def format_problem(problem: dict[str, Any], parameters: Sequence[str]) -> str:
    """Format one pydantic error as a sentence."""
    path = _format_path(problem["loc"])
    kind = problem["type"]
    if kind == "missing":
        return f"`{path}` is missing."
    if kind == "extra_forbidden":
        close = difflib.get_close_matches(path, parameters, n=1)
        return f"There is no parameter `{path}`." + (f" Did you mean `{close[0]}`?" if close else "")
    if kind == "enum":
        return f"`{path}` must be {problem['ctx']['expected']}, not {_format_value(problem['input'])}."
    message = problem["msg"][0].lower() + problem["msg"][1:]
    return f"`{path}`: {message}, not {_format_value(problem['input'])}."


def _format_path(location: tuple[str | int, ...]) -> str:
    """Format a location as `steps[2].name`, without the names of union members that pydantic tried."""
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif not path:
            path = part[:MAX_SHOWN]
        elif part.isidentifier() and part not in {"str", "int", "dict", "list"}:
            path += f".{part}"
    return path


def _format_value(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"
