"""Chooses the toolsets of a client: all of them, or as many as its tool limit allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

# Ordered by use to a single agent in an editor; plans and the toolsets that need plans come last.
_TOOLSET_PRIORITY = ("jobs", "reviews", "tracking", "agents", "messages", "plans", "workspaces", "templates")


@dataclass(frozen=True)
class ToolsetCatalog:
    """All toolsets, those configured for the project, and a function that counts the tools of a selection."""

    toolsets: tuple[str, ...]
    configured: tuple[str, ...]
    count: Callable[[Sequence[str]], int]

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


def choose_toolsets(
    catalog: ToolsetCatalog, requested: Sequence[str] | None, limit: int | None
) -> ToolsetChoice:
    """Choose the requested toolsets, or as many configured ones as fit the client's tool limit."""
    if requested:
        return ToolsetChoice(
            catalog.expand(requested), named=tuple(requested), tools=catalog.count(requested)
        )
    wanted = catalog.expand(catalog.configured)
    fitting = wanted
    while (tools := catalog.count(fitting)) > (limit or tools) and len(fitting) > 1:
        fitting = fitting[:-1]
    named = fitting if fitting != wanted else None
    return ToolsetChoice(fitting, wanted[len(fitting) :], named, tools)
