"""Renders generated JSON with one line for each entry, so that changes are easy to review."""

from __future__ import annotations

import json
from typing import Any


def render_json(value: Any, depth: int) -> str:
    """Render JSON; objects up to this depth have a line for each of their keys."""
    return _render_level(value, depth) + "\n"


def _render_level(value: Any, depth: int) -> str:
    if depth == 0 or not isinstance(value, dict) or not value:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    lines = [f"{json.dumps(key)}:{_render_level(each, depth - 1)}" for key, each in value.items()]
    return "{\n" + ",\n".join(lines) + "\n}"
