"""What is wrong with a call's arguments, in one sentence that names the parameter."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from deepwork.errors import InvalidInput

MAX_NAMED = 5
MAX_SHOWN = 60


def complaint(tool: str, error: ValidationError, parameters: Sequence[str]) -> InvalidInput:
    """Every problem at once, so that a caller can mend them all before the next try."""
    problems = [sentence(dict(problem), parameters) for problem in error.errors(include_url=False)]
    more = f" And {len(problems) - MAX_NAMED} more." if len(problems) > MAX_NAMED else ""
    taken = ", ".join(parameters) or "none"
    return InvalidInput(
        " ".join(problems[:MAX_NAMED]) + more,
        suggestion=f"Correct this and call {tool} again. Its parameters: {taken}.",
    )


def sentence(problem: dict[str, Any], parameters: Sequence[str]) -> str:
    """One problem, as pydantic tells it, in words."""
    path = _path(problem["loc"])
    kind = problem["type"]
    if kind == "missing":
        return f"`{path}` is missing."
    if kind == "extra_forbidden":
        close = difflib.get_close_matches(path, parameters, n=1)
        return f"There is no parameter `{path}`." + (f" Did you mean `{close[0]}`?" if close else "")
    if kind == "enum":
        return f"`{path}` must be {problem['ctx']['expected']}, not {_shown(problem['input'])}."
    message = problem["msg"][0].lower() + problem["msg"][1:]
    return f"`{path}`: {message}, not {_shown(problem['input'])}."


def _path(location: tuple[str | int, ...]) -> str:
    """`steps[2].name`; which alternative a validator tried is not the caller's business."""
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif not path:
            path = part[:MAX_SHOWN]
        elif part.isidentifier() and part not in {"str", "int", "dict", "list"}:
            path += f".{part}"
    return path


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"
