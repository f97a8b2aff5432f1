"""Actions that a page offers a person about a thing: an operation with its arguments filled in."""

from __future__ import annotations

from typing import Any

from deepwork.kernel.answers import Answer


class Asked(Answer):
    """An argument that the person is asked for."""

    name: str
    label: str
    optional: bool | None = None


class Act(Answer):
    """An offered action: the operation and its arguments, without those in `asks`."""

    label: str
    tool: str
    arguments: dict[str, Any]
    asks: list[Asked] | None = None
    title: str | None = None
    """The heading of the dialog; the label if there is none."""


def offer(label: str, tool: str, asks: dict[str, str] | None = None, **arguments: Any) -> Act:
    """Offer an operation; `asks` has the question for each argument that the person is asked for."""
    asked = [Asked(name=name, label=question) for name, question in (asks or {}).items()]
    return Act(label=label, tool=tool, arguments=arguments, asks=asked or None)
