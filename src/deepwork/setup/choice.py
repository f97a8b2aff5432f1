"""Which toolsets a client gets: all of them, or as many as it can show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

# What one agent in one editor needs most comes first; plans, and what makes sense only with them, come last.
_ORDER = ("jobs", "reviews", "tracking", "agents", "messages", "plans", "workspaces", "templates")


@dataclass(frozen=True)
class Toolbox:
    """The toolsets there are, the ones this project's settings ask for, and how many tools a choice has."""

    toolsets: tuple[str, ...]
    configured: tuple[str, ...]
    count: Callable[[Sequence[str]], int]

    def expanded(self, chosen: Sequence[str]) -> tuple[str, ...]:
        """The names behind a choice, in the order of their weight."""
        names = self.toolsets if "all" in chosen else chosen
        return tuple(
            sorted(names, key=lambda name: (_ORDER.index(name) if name in _ORDER else len(_ORDER), name))
        )


@dataclass(frozen=True)
class Choice:
    """What a client is offered."""

    toolsets: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    named: tuple[str, ...] | None = None
    """How the entry names them; without that, the server goes by its settings."""
    tools: int = 0


def choose(box: Toolbox, asked: Sequence[str] | None, limit: int | None) -> Choice:
    """The toolsets that were asked for, else those of the settings, as far as the client can show them."""
    if asked:
        return Choice(box.expanded(asked), named=tuple(asked), tools=box.count(asked))
    wanted = box.expanded(box.configured)
    fitting = wanted
    while (tools := box.count(fitting)) > (limit or tools) and len(fitting) > 1:
        fitting = fitting[:-1]
    named = fitting if fitting != wanted else None
    return Choice(fitting, wanted[len(fitting) :], named, tools)
