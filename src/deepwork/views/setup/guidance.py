"""What set-up says about tools, and which it chooses."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

from deepwork.kernel.records import dataclass
from deepwork.kernel.vendors import Vendor
from deepwork.views.setup.jsonc import UnreadableText, get_line_number

_PLAN_TOOLSETS = ("plans", "agents")
"""What agents need that only work on plans."""
# Ordered by use to a single agent in an editor; plans and the toolsets that need plans come last.
_TOOLSET_PRIORITY = ("jobs", "reviews", "tracking", "agents", "messages", "plans", "workspaces", "templates")


@dataclass(frozen=True)
class ToolsetCatalog:
    """All toolsets, those configured for the project, and functions that measure a selection."""

    toolsets: tuple[str, ...]
    configured: tuple[str, ...]
    count: Callable[[Sequence[str]], int]
    """Counts the tools."""
    estimate: Callable[[Sequence[str]], int]
    """Estimates the tokens that their descriptions cost in every session."""
    has_only_plans: bool = False
    """Whether the project has plans and nothing else, and its settings choose no toolsets."""

    def expand(self, chosen: Sequence[str]) -> tuple[str, ...]:
        """Resolve "all" and sort the names by importance."""
        names = self.toolsets if "all" in chosen else chosen
        return tuple(
            sorted(
                names,
                key=lambda name: (
                    _TOOLSET_PRIORITY.index(name) if name in _TOOLSET_PRIORITY else len(_TOOLSET_PRIORITY),
                    name,
                ),
            )
        )


@dataclass(frozen=True)
class ToolsetChoice:
    """The toolsets a client is offered."""

    toolsets: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    named: tuple[str, ...] | None = None
    """The names to write into the entry; None lets the server use its settings."""
    tools: int = 0
    tokens: int = 0
    because: str | None = None
    """Why some are left out."""


def choose_toolsets(
    catalog: ToolsetCatalog, requested: Sequence[str] | None, client: Vendor
) -> ToolsetChoice:
    """Choose the requested toolsets, or as many configured ones as fit the client's tool limit.

    A project that has only plans needs few.
    """
    wanted, because, limit = catalog.expand(catalog.configured), None, client.tool_limit
    if requested:
        wanted = fitting = catalog.expand(requested)
    elif catalog.has_only_plans:
        fitting, because = catalog.expand(_PLAN_TOOLSETS), "this project has only plans"
    else:
        fitting = wanted
        while catalog.count(fitting) > (limit or catalog.count(fitting)) and len(fitting) > 1:
            fitting, because = fitting[:-1], f"{client.title} shows at most {limit} tools"
    return ToolsetChoice(
        fitting,
        tuple(name for name in wanted if name not in fitting),
        tuple(requested) if requested else (fitting if fitting != wanted else None),
        catalog.count(fitting),
        catalog.estimate(fitting),
        because,
    )


BEGIN = "<!-- deepwork:begin, written by `deepwork setup`, which replaces the text between the marks -->"
END = "<!-- deepwork:end -->"
_BEGIN_PATTERN = re.compile(r"<!-- deepwork:begin\b[^\n]*-->")

_INTRODUCTION = """\
## Working with deepwork

The MCP server `deepwork` keeps your work durable and visible: trust its records, also after a restart or
compaction. Use it for anything longer than a few minutes. Its instructions say which tools to call.
"""

_WAYS_OF_WORKING = {
    "jobs": "- **A recipe exists** (`get_workflows` lists them): run it as a job.\n",
    "plans": "- **Many tasks, or many agents**: join a plan of `workflow_list`, or create one.\n",
    "tracking": "- **Anything else**: track it; `log_issue` (requires_human_review) if you are stuck.\n",
}
"""When to choose each way; the instructions of the server say how (`edge/server/prompts.py`)."""

_LAST_RULE = "Report while you work, with ids from answers, not from memory."


def render_section(toolsets: Collection[str]) -> str:
    """Render the section for these toolsets: when to use deepwork, and which way to work."""
    ways = [text for name, text in _WAYS_OF_WORKING.items() if name in toolsets]
    choice = ["\nChoose one way:\n\n", *ways] if ways else []
    return "".join([_INTRODUCTION, *choice, "\n", _LAST_RULE])


def insert_section(text: str, body: str) -> str:
    """Replace the section, or append it if there is none."""
    span = _find_span(text)
    # Detect line endings in an existing section, not in the whole text: a preceding bare \r would mislead.
    looked_at = text[span[0] : span[1]] if span else text
    newline = "\r\n" if re.match(r"[^\n]*\r\n", looked_at) else "\n"
    block = f"{BEGIN}\n{body}\n{END}".replace("\n", newline)
    if span:
        return text[: span[0]] + block + text[span[1] :]
    if not text:
        return block + newline
    return text + newline * (1 if text.endswith("\n") else 2) + block + newline


def remove_section(text: str) -> str:
    """Remove the section and the blank line before it."""
    if not (span := _find_span(text)):
        return text
    before, after = text[: span[0]], text[span[1] :]
    newline = "\r\n" if before.endswith("\r\n") or after.startswith("\r\n") else "\n"
    return before.removesuffix(newline) + after.removeprefix(newline)


def has_section(text: str) -> bool:
    return _find_span(text) is not None


def _find_span(text: str) -> tuple[int, int] | None:
    begin = _BEGIN_PATTERN.search(text)
    end = text.find(END, begin.end() if begin else 0)
    if begin is None and end < 0:
        return None
    if begin is None or end < 0:
        there, missing = ("end", "begin") if begin is None else ("begin", "end")
        position = begin.start() if begin else end
        raise UnreadableText(
            f"The mark deepwork:{there} has no matching deepwork:{missing}", get_line_number(text, position)
        )
    if second := _BEGIN_PATTERN.search(text, begin.end()):
        raise UnreadableText(
            "The mark deepwork:begin occurs a second time", get_line_number(text, second.start())
        )
    return begin.start(), end + len(END)
