"""`deepwork budget` and `deepwork spend`: what work may cost, and what it cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from deepwork.edge.cli.framework.applications import call_operation, open_application
from deepwork.edge.cli.framework.id_resolution import resolve_id
from deepwork.edge.cli.framework.options import (
    CommandGroup,
    json_option,
    key_option,
    passphrase_option,
    place_options,
)
from deepwork.edge.cli.framework.output import print_answer, to_printable
from deepwork.edge.cli.framework.proofs import build_act_call
from deepwork.gates.budgets.rules import format_dollars
from deepwork.kernel.errors import NotFound

_UNITS = ("usd", "tokens", "minutes")


@click.group(cls=CommandGroup)
def budget() -> None:
    """What plans and tasks may cost: show it, change it."""


@budget.command("set")
@click.argument("id", metavar="PLAN|TASK")
@click.option("--usd", type=click.FloatRange(min=0, min_open=True), help="Dollars.")
@click.option("--tokens", type=click.IntRange(min=1), help="Tokens.")
@click.option("--minutes", type=click.FloatRange(min=0, min_open=True), help="Minutes under claim.")
@click.option("--remove-others", is_flag=True, help="Remove the limits that are not given.")
@passphrase_option
@key_option
@json_option
@place_options
def set_budget(
    id: str,
    usd: float | None,
    tokens: int | None,
    minutes: float | None,
    remove_others: bool,
    passphrase_stdin: bool,
    idempotency_key: str | None,
    as_json: bool,
    **place: Any,
) -> None:
    """Set what a plan or a task may cost; limits that are not given stay.

    It is recorded as yours. Raising one needs the proof that your decisions need.
    """
    from deepwork.kernel.database.idempotency import check_key

    amounts = {"usd": usd, "tokens": tokens, "minutes": minutes}
    given = {name: value for name, value in amounts.items() if value is not None}
    with open_application(place.pop("path"), place, reads=True, quiet=as_json) as app:
        known = _resolve(app.database, id)
        key = None if idempotency_key is None else check_key(idempotency_key)
        call = build_act_call("set_budget", key, passphrase_stdin=passphrase_stdin)
        arguments = {"id": known, "remove_others": remove_others, **given}
        answer = call_operation(app, "set_budget", arguments, call)
    if as_json:
        print_answer(answer, as_json=True)
        return
    before, now = _describe(answer.get("before")), _describe(answer.get("budget"))
    print(to_printable(f"{answer['name']}: {now} (before: {before})"))


@budget.command("show")
@click.argument("id", metavar="PLAN|TASK")
@json_option
@place_options
def show_budget(id: str, as_json: bool, **place: Any) -> None:
    """Show what a plan or a task may cost, and what it cost so far."""
    with open_application(place.pop("path"), place, reads=True, quiet=as_json) as app:
        answer = call_operation(app, "get_budget", {"id": _resolve(app.database, id)})
    print_answer(answer if as_json else _flatten(answer), as_json=as_json)


@click.command()
@click.option(
    "--by",
    "grouping",
    type=click.Choice(["plan", "task", "agent", "vendor", "model", "day", "source"]),
    default="plan",
    show_default=True,
    help="What to add up by.",
)
@click.option("--plan", "workflow_id", metavar="ID", help="Only this plan; says what the rest may cost, too.")
@click.option("--days", type=click.IntRange(1, 3660), metavar="N", help="Only the last N days, with today.")
@click.option("--limits", is_flag=True, help="Show usage limits of vendors that agents wait at instead.")
@json_option
@place_options
def spend(
    grouping: Any, workflow_id: str | None, days: int | None, limits: bool, as_json: bool, **place: Any
) -> None:
    """Show what work cost, as agents and their streams reported it."""
    with open_application(place.pop("path"), place, reads=True, quiet=as_json) as app:
        if limits:
            print_listed_windows(call_operation(app, "list_limits", {}), as_json=as_json)
            return
        known = resolve_id(app.database, "plan", workflow_id) if workflow_id else None
        answer = call_operation(app, "get_spending", {"by": grouping, "workflow_id": known, "days": days})
        if known and known.startswith("wf_"):
            rest = call_operation(app, "get_work_now", {"id": known, "limit": 1}).get("forecast")
            answer |= {"forecast": rest} if rest else {}
    if as_json:
        print_answer(answer, as_json=True)
        return
    if answer["spending"]:
        rows = [
            {**row, "usd": format_dollars(row["usd"])}
            | ({"budget": _describe(row["budget"])} if "budget" in row else {})
            for row in answer["spending"]
        ]
        print_answer({"spending": rows}, as_json=False)
    else:
        print("Nothing was reported.")
    for title in ("plan", "day"):
        if title in answer:
            print_answer(_flatten(answer[title]), as_json=False)
    if "forecast" in answer:
        print("\n".join(map(to_printable, describe_forecast(answer["forecast"]))))


def print_listed_windows(answer: dict[str, Any], *, as_json: bool) -> None:
    """Print the limits that agents wait at."""
    from deepwork.edge.cli.framework.output import print_listed

    rows = [
        {
            "vendor": each["vendor"],
            "agent": each["profile"],
            "waiting": each["waiting"],
            "ends": each.get("ends_at", "not known"),
            "next_try": each.get("next_try_at", ""),
            "reason": each.get("reason", ""),
        }
        for each in answer["windows"]
    ]
    print_listed(answer, "windows", rows, "No agent waits at a usage limit.", as_json=as_json)


def describe_forecast(forecast: dict[str, Any]) -> Iterator[str]:
    """Say what the rest of a plan will take, and how that is known."""
    yield f"Left: {forecast['tasks_left']} tasks."
    if usd := forecast.get("usd"):
        low, likely, high = (format_dollars(usd[each]) for each in ("low", "likely", "high"))
        yield f"They may cost {likely} more (between {low} and {high})."
    if minutes := forecast.get("minutes"):
        low, likely, high = (f"{minutes[each]:.0f}" for each in ("low", "likely", "high"))
        yield f"They may take {likely} more minutes (between {low} and {high})."
    if (enough := forecast.get("tasks_until_limit")) is not None:
        yield f"The dollars of the run are enough for about {enough} of them."
    yield from (forecast[each] for each in ("basis", "unknown") if each in forecast)


def _resolve(database: Any, given: str) -> str:
    """Return the id of a plan or of a task."""
    if given.startswith("tk_"):
        return resolve_id(database, "task", given)
    known = resolve_id(database, "plan", given)
    if not known.startswith("wf_"):
        raise NotFound("workflow", given, suggestion="List plans with `deepwork plans list`.")
    return known


def _describe(limits: dict[str, Any] | None) -> str:
    if not limits:
        return "no budget"
    return ", ".join(_format(unit, limits[unit]) for unit in _UNITS if unit in limits)


def _format(unit: str, amount: float) -> str:
    """Write an amount: money as everywhere, others with at most six decimals."""
    if unit == "usd":
        return format_dollars(amount)
    return f"{f'{amount:,.6f}'.rstrip('0').rstrip('.')} {unit}"


def _flatten(answer: dict[str, Any]) -> dict[str, Any]:
    """Write amounts as words, one line for each fact."""
    words = {name: value for name, value in answer.items() if name not in ("budget", "spent", "sources")}
    if "budget" in answer:
        words["budget"] = _describe(answer["budget"])
    words["spent"] = _describe(answer.get("spent"))
    if answer.get("sources"):
        words["sources"] = ", ".join(
            f"{format_dollars(usd)} {source}" for source, usd in answer["sources"].items()
        )
    return words
