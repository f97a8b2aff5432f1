"""Parses TOML and reports the line of an error."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any

from deepwork.views.setup.jsonc import UnreadableText, get_line_number

BOM = "\ufeff"
_ERROR_POSITION_PATTERN = re.compile(r" \(at line (\d+), column \d+\)| \(at end of document\)")


def parse(text: str) -> dict[str, Any]:
    """Parse the text or raise `UnreadableText`."""
    try:
        return tomllib.loads(text.removeprefix(BOM).replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        found = _ERROR_POSITION_PATTERN.search(str(error))
        line = int(found[1]) if found and found[1] else get_line_number(text, len(text.rstrip()))
        raise UnreadableText(_ERROR_POSITION_PATTERN.sub("", str(error)), line) from None
    except RecursionError:
        raise UnreadableText("Nested too deeply", 1) from None


def find_table(data: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """Find the value at a path."""
    found: Any = data
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found
