"""Generates docs/tools.md from the registry; a test checks that the page is up to date."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path

from rs_bpe.bpe import openai

from deepwork.config import load_settings
from deepwork.server.application import Application
from deepwork.server.registry import ToolSpec

PAGE = Path(__file__).parent.parent / "docs" / "tools.md"

HEAD = """\
# Tools

Every tool of the server, as `tools/list` offers it. This page is written from the code by `make docs`.

A tool's answer is one JSON object, as text and as `structuredContent`; a list or plain text stands there under `result`. An
error is `isError` with one JSON object: `code`, `message`, `recoverable`, `suggestion` (see [errors](errors.md)). Words are
accepted in either case. Times of agents and messages are Unix milliseconds. An empty list as a filter means no filter; an
empty list of files means no file.

Any call that changes something can be repeated safely under an idempotency key: `_meta: {"deepwork/idempotency-key": "…"}`
over MCP, `--idempotency-key` on the command line. The same key with the same arguments gives the first answer again; with
other arguments it is `KEY_REUSED`. Keys are kept for seven days.

On the command line a tool is a verb of its toolset: `agent_register` is `deepwork agents register`. What a tool requires
are arguments, the rest are options.

## What the list costs

Tokens (o200k_base) that an agent pays for names, descriptions and input schemas. Leave out what you do not use with
`--toolsets`, `--tools`, `--exclude-tools` or `--read-only`.

| toolset | tools | tokens | per tool |
|---|--:|--:|--:|
"""


def render_page() -> str:
    """Render the whole page."""
    specs = list(load_registry().values())
    by_toolset = {
        toolset: list(members)
        for toolset, members in groupby(
            sorted(specs, key=lambda s: (s.toolset, s.name)), key=lambda s: s.toolset
        )
    }
    costs = [_render_cost_row(toolset, members) for toolset, members in by_toolset.items()]
    total = _render_cost_row("**all**", specs)
    sections = [
        f"## {toolset.capitalize()}\n\n" + "\n".join(map(_render_section, members))
        for toolset, members in by_toolset.items()
    ]
    return HEAD + "\n".join([*costs, total]) + "\n\n" + "\n".join(sections)


def load_registry() -> dict[str, ToolSpec]:
    """Load every tool; the database is never opened."""
    return Application(
        load_settings(Path(__file__).parent, {"database": "unused.db"}, environment={})
    ).registry


def count_tokens(spec: ToolSpec) -> int:
    """Count the tokens that a tool's definition costs in every session."""
    shown = {"name": spec.name, "description": spec.description, "inputSchema": spec.input_schema}
    return int(openai.o200k_base().count(json.dumps(shown, separators=(",", ":"))))


def _render_cost_row(name: str, specs: list[ToolSpec]) -> str:
    cost = sum(map(count_tokens, specs))
    return f"| {name} | {len(specs)} | {cost} | {cost / len(specs):.0f} |"


def _render_section(spec: ToolSpec) -> str:
    traits = [
        word
        for word, holds in [
            ("read-only", spec.read_only),
            ("idempotent", spec.idempotent and not spec.read_only),
            ("destructive", spec.destructive),
        ]
        if holds
    ]
    marks = f" *({', '.join(traits)})*" if traits else ""
    required = set(spec.input_schema.get("required", []))
    rows = [
        f"| `{name}` | {_format_type(shape)} | {'yes' if name in required else ''} | {_format_remark(shape)} |"
        for name, shape in spec.input_schema["properties"].items()
    ]
    table = "| parameter | type | required | |\n|---|---|---|---|\n" + "\n".join(rows) + "\n"
    answer = f"Answers {_format_answer(spec)}.\n" if _format_answer(spec) else ""
    return f"### `{spec.name}`\n\n{spec.description}{marks}\n\n{table}\n{answer}"


def _format_type(shape: dict[str, object]) -> str:
    if "enum" in shape:
        return " \\| ".join(f"`{word}`" for word in shape["enum"])  # type: ignore[attr-defined]
    if shape.get("type") == "array":
        return f"list of {_format_type(shape['items'])}"  # type: ignore[arg-type]
    kind = shape.get("type")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _format_remark(shape: dict[str, object]) -> str:
    limits = [
        f"{word} {shape[key]}" for key, word in (("minimum", "from"), ("maximum", "to")) if key in shape
    ]
    default = [f"default `{shape['default']}`"] if "default" in shape else []
    inner = shape.get("properties")
    keys = [f"keys: {', '.join(f'`{key}`' for key in inner)}"] if isinstance(inner, dict) else []
    described = [str(shape["description"])] if "description" in shape else []
    return "; ".join([*described, *keys, *limits, *default])


def _format_answer(spec: ToolSpec) -> str:
    schema = spec.output_schema or {}
    required = set(schema.get("required", []))
    return ", ".join(
        f"`{key}`" + ("" if key in required or "default" in shape else "?")
        for key, shape in schema.get("properties", {}).items()
    )


if __name__ == "__main__":
    PAGE.write_text(render_page(), encoding="utf-8")
