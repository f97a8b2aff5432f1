"""`deepwork inbox`: what waits for you; to look at, to put off, to clear, or to give to somebody."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from deepwork.edge.cli.framework import terminal
from deepwork.edge.cli.framework.applications import call_operation, name_person, open_application
from deepwork.edge.cli.framework.documents import TextParam
from deepwork.edge.cli.framework.options import CommandGroup, json_option, key_option, place_options
from deepwork.edge.cli.framework.output import print_answer, print_listed, print_said, to_printable
from deepwork.edge.cli.framework.patches import page_lines, render_patch, render_stat
from deepwork.gates.budgets.rules import format_dollars
from deepwork.kernel.errors import Code, InvalidInput, NotAllowed, NotFound
from deepwork.kernel.foreign_text import split_lines
from deepwork.kernel.values import format_timestamp

if TYPE_CHECKING:
    from deepwork.edge.server.application import Application

_SHOWN = ("open", "snoozed", "given", "cleared")
_MAX_BYTES = 1_000_000
_MIN_BEGINNING = 4
"""Of the beginning of an id, as everywhere."""
_SECONDS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
note_option = click.option("--note", type=TextParam(may_be_empty=False), metavar="TEXT|-", help="Why.")
items_argument = click.argument("items", metavar="ITEM...", nargs=-1, required=True)


@click.group(cls=CommandGroup)
def inbox() -> None:
    """What waits for you: list it, look at it, put it off, clear it, give it to somebody.

    ITEM is KIND:ID as the list shows it, or the id alone.
    """


@inbox.command("list")
@click.option("--show", type=click.Choice(_SHOWN), default="open", help="Open ones are the default.")
@place_options
@json_option
def list_items(show: str, as_json: bool, path: str, **place: Any) -> None:
    """List what waits for you: what agents wait for first, then the oldest."""
    with open_application(path, place, reads=True, quiet=as_json) as app:
        found = _call(app, "get_inbox", {"show": show})
    rows = [_build_row(each) for each in found["items"]]
    none = "Nothing waits for you." if show == "open" else f"Nothing is {show}."
    print_listed(found, "items", rows, none, as_json=as_json)
    if not as_json:
        for each in found["items"]:
            if each.get("next"):
                print(to_printable(f"{each['next']}  # {each['title']}"))
    hidden = [f"{count} {name}" for name in _SHOWN[1:] if (count := found["counts"][name]) and name != show]
    if hidden and not as_json:
        print_answer(f"Not listed: {', '.join(hidden)}; see --show.", as_json=False)


@inbox.command("show")
@click.argument("item")
@place_options
@json_option
def show_item(item: str, as_json: bool, path: str, **place: Any) -> None:
    """Show what belongs to one decision: the work, its checks, findings, last words, cost, what it blocks."""
    with open_application(path, place, reads=True, quiet=as_json) as app:
        [known] = _resolve(app, [item])
        found = _call(app, "get_inbox_evidence", {"item": known["id"], "max_bytes": _MAX_BYTES})
    if as_json:
        print_answer(found, as_json=True)
    else:
        page_lines(_render(known, found))


@inbox.command()
@items_argument
@click.option("--for", "duration", metavar="30m|2h|3d|1w", help="How long.")
@click.option("--until", metavar="ISO", help="Until this time.")
@key_option
@place_options
@json_option
def snooze(items: Sequence[str], duration: str | None, until: str | None, **given: Any) -> None:
    """Put items off; each comes back at the time, or when something new happens with it."""
    if (duration is None) == (until is None):
        raise click.UsageError("Say how long: --for 2h, or --until TIME.")
    moment = until or _add_to_now(duration or "")
    _mark("snooze_items", items, {"until": moment}, lambda each: f"until {each['snoozed_until']}", **given)


@inbox.command()
@items_argument
@note_option
@key_option
@place_options
@json_option
def clear(items: Sequence[str], note: str | None, **given: Any) -> None:
    """Clear items without deciding; each comes back when something new happens with it."""
    about = {"note": note} if note else {}
    _mark("clear_items", items, about, lambda _: "cleared; `deepwork inbox restore` takes it back", **given)


@inbox.command()
@items_argument
@click.option("--to", required=True, metavar="NAME|AGENT", help="A person's name, or the id of an agent.")
@note_option
@key_option
@place_options
@json_option
def give(items: Sequence[str], to: str, note: str | None, **given: Any) -> None:
    """Give items to another person, or to an agent, which hears of it with its next call."""
    about = {"to": to} | ({"note": note} if note else {})
    _mark("give_items", items, about, lambda each: f"given to {each['owner_name']}", **given)


@inbox.command()
@items_argument
@key_option
@place_options
@json_option
def restore(items: Sequence[str], **given: Any) -> None:
    """Undo snoozing, clearing and giving away."""
    _mark("restore_items", items, {}, lambda _: "waits for you again", **given)


@inbox.command()
@click.argument("item")
@click.argument("hint", type=TextParam(may_be_empty=False), metavar="[HINT|-]", required=False)
@key_option
@place_options
@json_option
def retry(
    item: str, hint: str | None, idempotency_key: str | None, as_json: bool, path: str, **place: Any
) -> None:
    """Let all failed tasks of an item be tried again; HINT opens the next agents' prompts."""
    with open_application(path, place, reads=True, quiet=as_json) as app:
        [known] = _resolve(app, [item])
        parts = known.get("same") or [known]
        if known["kind"] != "failed_task" or not all(each["about"].startswith("tk_") for each in parts):
            raise NotAllowed(f"{known['id']} is no failed task of a plan.", suggestion=known.get("next"))
        for number, each in enumerate(parts):
            given = {"id": each["about"], "status": "pending"} | ({"outcome": hint} if hint else {})
            key = f"{idempotency_key}-{number}" if idempotency_key else None
            _call(app, "task_update_status", given, key)
    names = ", ".join(each["task"]["name"] for each in parts)
    print_said(
        {"retried": [each["about"] for each in parts]}, f"Will be tried again: {names}.", as_json=as_json
    )


def _mark(
    operation: str,
    items: Sequence[str],
    about: Mapping[str, Any],
    describe: Any,
    idempotency_key: str | None,
    as_json: bool,
    path: str,
    **place: Any,
) -> None:
    with open_application(path, place, reads=True, quiet=as_json) as app:
        known = [each["id"] for each in _resolve(app, items)]
        answer = _call(app, operation, {"items": known, **about}, idempotency_key)
    said = [f"{each['title']}: {describe(each)}." for each in answer["items"]]
    print_said(answer, *said, as_json=as_json)


def _resolve(app: Application, items: Sequence[str]) -> list[dict[str, Any]]:
    """Return the items by their ids, or by the ids of what they are about."""
    listed = [each for show in _SHOWN for each in _call(app, "get_inbox", {"show": show})["items"]]
    found = []
    for item in items:
        meant = _find_meant(listed, item.__eq__)
        if not meant and len(re.split("[:_]", item)[-1]) >= _MIN_BEGINNING:
            meant = _find_meant(listed, re.compile(re.escape(item)).match)
        if not meant:
            raise NotFound("item", item, suggestion="It was decided, or is over. See: `deepwork inbox`.")
        if len(names := list(dict.fromkeys(each["id"] for each in meant))) > 1:
            suggestion = f"Use {', '.join(names)}."
            raise InvalidInput(f"{item!r} is ambiguous.", code=Code.INVALID_INPUT, suggestion=suggestion)
        found.append(meant[0])
    return found


def _find_meant(listed: Sequence[dict[str, Any]], is_meant: Callable[[str], object]) -> list[dict[str, Any]]:
    """Find the items with such an id, else those that have such a one as a part."""
    own = [each for each in listed if is_meant(each["id"]) or is_meant(each["about"])]
    return own or [each for each in listed if any(map(is_meant, _list_part_ids(each)))]


def _list_part_ids(item: Mapping[str, Any]) -> list[str]:
    return [id for part in item.get("same") or () for id in (part["id"], part["about"])]


def _call(app: Application, operation: str, given: Mapping[str, Any], key: str | None = None) -> Any:
    from deepwork.kernel.call import Call
    from deepwork.kernel.database.idempotency import check_key

    call = Call(name_person(), operation, None if key is None else check_key(key))
    return call_operation(app, operation, dict(given), call)


def _add_to_now(duration: str) -> str:
    """Return the time after a duration such as `2h`, as ISO 8601."""
    parsed = re.fullmatch(r"(\d{1,4})([mhdw])", duration.strip())
    if parsed is None:
        raise click.UsageError(f"{duration!r} is not a duration: use 30m, 2h, 3d or 1w.")
    seconds = int(parsed[1]) * _SECONDS[parsed[2]]
    return format_timestamp(int((time.time() + seconds) * 1000))


# What is printed


def _build_row(item: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "what": item["title"],
        "run": item["run"]["name"] if item.get("run") else "",
        "since": item["since"],
        "blocks": describe_blocked(item),
        "cost": format_dollars(item["usd"]) if item.get("usd") else "",
        "owner": item.get("owner_name") or "",
        "id": item["id"],
    }


def describe_blocked(item: Mapping[str, Any]) -> str:
    """Say how much waits for an item."""
    counted = ((item["agents"], "agent"), (item.get("tasks") or 0, "task"))
    return ", ".join(f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in counted if count)


def _render(item: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[str]:
    yield terminal.paint(to_printable(item["title"]), "bold")
    run = f" in {item['run']['name']}" if item.get("run") else ""
    blocked = describe_blocked(item)
    yield to_printable(f"{item['id']}{run}, since {item['since']}{f', blocks {blocked}' if blocked else ''}")
    yield ""
    yield from _indent(found["question"])
    for fact in found["facts"]:
        yield ""
        yield f"{fact['name']}:"
        yield from _indent(fact["value"])
    for check in found["checks"]:
        yield ""
        yield terminal.paint(to_printable(f"check {check['check']}: {check['verdict']}"), "bold")
        yield from _indent(_plain(check.get("excerpt") or check.get("output") or ""))
    for finding in found["findings"]:
        yield ""
        yield from _indent(finding["text"])
    if words := found.get("last_words"):
        yield ""
        yield f"last words of {to_printable(words.get('agent') or 'the agent')}:"
        yield from _indent(words["text"])
    if found.get("warning"):
        yield ""
        yield to_printable(found["warning"])
    if found.get("files"):
        yield ""
        yield from render_stat(found)
        if found.get("patch"):
            yield ""
            yield from render_patch(found, "`deepwork diff TASK FILE` shows the rest")
    if spent := found.get("spent"):
        yield ""
        yield f"It cost {format_dollars(spent['usd'] or 0)}, {spent['tokens'] or 0:,} tokens."
    yield ""
    yield from (terminal.paint(each, "cyan") for each in found["commands"])


def _indent(text: str) -> Iterator[str]:
    yield from (f"  {to_printable(line)}" for line in split_lines(text))


def _plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;:]*m", "", text)
