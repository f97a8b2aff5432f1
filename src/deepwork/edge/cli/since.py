"""`deepwork since`: what happened while you were away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from deepwork.edge.cli.framework import terminal
from deepwork.edge.cli.framework.applications import call_operation, open_application
from deepwork.edge.cli.framework.options import json_option, place_options
from deepwork.edge.cli.framework.output import print_answer, to_printable
from deepwork.gates.budgets.rules import format_dollars

_SHOWN = 10
_HEADINGS = {
    "landed": "Landed",
    "done": "Done",
    "failed": "Failed",
    "parked": "Parked",
    "decided": "Decided without you",
}


@click.command()
@click.argument("since", metavar="[PERIOD|TIME]", default="8h")
@click.option("--all", "whole", is_flag=True, help="Show all that is listed, not only the newest.")
@json_option
@place_options
def since(since: str, whole: bool, as_json: bool, path: str, **place: Any) -> None:
    """Show what landed, was done, failed, parked and was decided since then, and what it cost.

    PERIOD is such as 8h (the default), 90m or 2d; TIME is such as 2026-11-18T18:00, in UTC.
    """
    with open_application(path, place, reads=True, quiet=as_json) as app:
        answer = call_operation(app, "get_since", {"since": since})
    print_answer(answer, as_json=as_json, render=lambda it: _render(it, whole=whole))


def _render(answer: dict[str, Any], *, whole: bool) -> Iterator[str]:
    spent = answer["spent"]
    yield f"Since {terminal.format_moment(terminal.parse_moment('at', answer['since']) or 0)}: " + ", ".join(
        [
            *(f"{answer[name]['total']:,} {name}" for name in _HEADINGS),
            f"{format_dollars(spent['usd'])} and {spent['tokens']:,} tokens spent",
        ]
    )
    for name, heading in _HEADINGS.items():
        yield from _render_group(heading, answer[name], whole=whole)


def _render_group(heading: str, group: dict[str, Any], *, whole: bool) -> Iterator[str]:
    if not group["total"]:
        return
    yield ""
    yield terminal.paint(heading, "bold")
    shown = group["items"] if whole else group["items"][:_SHOWN]
    for line in shown:
        words = [line["title"], line["detail"], f"({line['run']['name']})" if "run" in line else ""]
        yield to_printable(f"  {line['id']}  " + "  ".join(filter(None, words)))
    if group["total"] > len(shown):
        more = "" if whole else ": deepwork since --all"
        yield f"  and {group['total'] - len(shown):,} more{more}"
