"""`deepwork clean`: removes what landed, abandoned and old work left."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from deepwork.edge.cli.framework.applications import call_operation, name_person, open_application
from deepwork.edge.cli.framework.options import json_option, place_options
from deepwork.edge.cli.framework.output import print_answer, to_printable
from deepwork.kernel.call import Call

_MEBIBYTE = 2**20
_USUAL_DAYS = 14


@click.command()
@click.option("--yes", is_flag=True, help="Remove what is listed.")
@click.option(
    "--older-than",
    "days",
    type=click.FloatRange(min=0),
    default=_USUAL_DAYS,
    show_default=True,
    metavar="DAYS",
    help="Only what has been over for so long.",
)
@json_option
@place_options
def clean(yes: bool, days: float, as_json: bool, path: str, **place: Any) -> None:
    """List what work that is over left: worktrees, branches, refs, and what agents wrote; --yes removes it.

    Over is what landed or was abandoned. What is not merged, or not committed, is kept.
    """
    with open_application(path, place, reads=True, quiet=as_json) as app:
        name = "remove_leftovers" if yes else "list_leftovers"
        call = Call(name_person(), name, scope="admin", carries_notices=False)
        answer = call_operation(app, name, {"older_than_days": days}, call)
    again = f"deepwork clean{'' if days == _USUAL_DAYS else f' --older-than {days:g}'} --yes"
    print_answer(answer, as_json=as_json, render=lambda found: list(_render(found, again)))


def _render(answer: Mapping[str, Any], again: str) -> Iterator[str]:
    done = "removed" if answer["is_removed"] else "can be removed"
    for each in answer["removable"]:
        size = f", {each['bytes'] / _MEBIBYTE:.1f} MiB" if each.get("bytes") else ""
        yield to_printable(f"{each['kind']:8}  {each['name']}{size}")
    for each in answer["kept"]:
        yield to_printable(f"kept {each['kind']}  {each['name']}: {each['kept']}")
    yield f"{len(answer['removable'])} {done}, {len(answer['kept'])} kept."
    if not answer["removable"] and not answer["is_removed"]:
        yield "deepwork clean --older-than 0  # lists also what has just ended"
    if answer["removable"] and not answer["is_removed"]:
        yield f"{again}  # removes these"
