"""`deepwork status`: what runs, who holds what, and what waits for a person."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from deepwork.edge.cli.framework.applications import view_store
from deepwork.edge.cli.framework.options import json_option, load_command_settings, place_options
from deepwork.edge.cli.framework.output import print_answer
from deepwork.edge.cli.status_page import render_page
from deepwork.kernel.config import Settings
from deepwork.kernel.database.engine import Engine
from deepwork.kernel.database.opening import open_engine
from deepwork.views.hooks import failure_log

Row = dict[str, Any]
NEEDS_SHOWN = 10
_MAX_CLIENTS = 3
_EXPLAINED_KINDS = ("agent_run", "landing")
"""What needs a person for reasons that only its detail says."""
_OTHER_NAMES = ("check", "review", "step_id", "current_step_id")
"""Keys of events that name what an event is about, if it has no name of its own."""


@click.command()
@click.option("--all", "whole", is_flag=True, help="Show all, even if it does not fit on one screen.")
@place_options
@json_option
def status(path: str, database: str | None, global_store: bool, whole: bool, as_json: bool) -> None:
    """Show what waits for you, with the command that answers it, what is running, and who holds what.

    `deepwork dashboard` shows the same, live.
    """
    settings = load_command_settings(path, quiet=True, database=database, global_store=global_store)
    engine = open_engine(settings.database_location)
    is_made = engine.exists()
    if not is_made and (place := Path(engine.address)).exists() and not place.is_file():
        engine.prepare()  # raises the same error as every command that opens the store
    if is_made:
        with view_store(settings) as viewed:
            seen = engine if viewed.refusal is None else open_engine(viewed.settings.database_location)
            answer = build_status(settings, seen, whole=whole) | {"store": engine.address}
    else:
        answer = build_empty_status(settings, engine)
    print_answer(answer, as_json=as_json, render=lambda it: render_page(it, whole=whole))


def build_empty_status(settings: Settings, engine: Engine) -> Row:
    """Build the answer for a project without a store: which commands to run first."""
    return {
        "project": str(settings.project_root),
        "store": None,
        "store_will_be": engine.address,
        "untrusted_settings": list(settings.untrusted_keys),
        "next": list(_list_first_steps(settings)),
    }


def _list_first_steps(settings: Settings) -> Iterator[str]:
    """List what to do before there is any work; leaves out what was done already."""
    from deepwork.edge.cli.setup import list_set_up_clients

    clients = list_set_up_clients(settings)
    if not (settings.state_folder / "config.yml").exists():
        yield "deepwork init  # writes .deepwork/config.yml for this project"
    if not clients:
        yield "deepwork setup CLIENT  # makes your client start deepwork; without CLIENT it lists them"
        yield "deepwork doctor  # checks the installation"
        return
    yield from (f"{client.title}: {client.next_step}" for client in clients[:_MAX_CLIENTS])
    yield "deepwork jobs list  # what you can ask an agent to run"
    yield "deepwork plans create NAME --prompt TEXT  # or plan work yourself"
    yield "deepwork dashboard  # watch it in a browser"


def build_status(settings: Settings, engine: Engine, *, whole: bool = False) -> Row:
    """Build the answer from one consistent read of the store."""
    # Before we open the store ourselves, because we would be listed too.
    servers = list(_list_processes(engine.list_other_processes()))
    work = _get_current_work(settings, engine)
    return {
        "project": str(settings.project_root),
        "store": engine.address,
        "servers": servers,
        "untrusted_settings": list(settings.untrusted_keys),
        "needs_you_total": work["needs_you_total"],
        "needs_you": [_build_need(each) for each in work["needs_you"][: None if whole else NEEDS_SHOWN]],
        "counts": work["counts"],
        **_group_runs(work["running"], work["steps"]),
        "held": work["held"],
        "unread": work["unread"],
        "events": [_build_event(event) for event in work["events"]],
        "hook_failures": _load_hook_failures(settings.store_folder),
    }


def _get_current_work(settings: Settings, engine: Engine) -> Row:
    """Call the operation without `Application`, which would make this command a tenth slower."""
    from deepwork.kernel.database.transaction import Database
    from deepwork.kernel.events.log import append_events
    from deepwork.views.overview.states.store import build_local_processes
    from deepwork.views.overview.states.view import StateView
    from deepwork.views.overview.status import StatusOperations

    processes = build_local_processes(settings)
    database = Database(engine, append_events)
    try:
        operations = StatusOperations(database, lambda tx: StateView(tx, processes))
        return operations.get_current_work().model_dump()
    finally:
        database.close()


def _list_processes(others: Iterable[str] | None) -> Iterator[str]:
    """List the processes that have the store open, with their arguments if /proc shows them."""
    for name in others or ():
        number = name.removeprefix("pid ")
        try:
            words = Path(f"/proc/{number}/cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            yield name
            continue
        after = next((place for place, word in enumerate(words) if word.endswith("deepwork")), len(words))
        yield " ".join([name, *filter(None, words[after + 1 :])])[:200]


def _build_need(need: Row) -> Row:
    return {
        "kind": need["kind"],
        "what": need["title"],
        "because": need["because"],
        "why": need["detail"] if need["kind"] in _EXPLAINED_KINDS else None,
        "run": need["run"]["name"] if "run" in need else "review",
        "id": need["id"],
        "since": need["since"],
        "command": need.get("next"),
    }


def _group_runs(running: Iterable[Row], steps: Mapping[str, str]) -> dict[str, list[Row]]:
    by_kind: dict[str, list[Row]] = {"job": [], "plan": [], "track": []}
    for run in running:
        at = {"step": steps.get(run["id"])} if run["kind"] == "job" else {}
        by_kind[run["kind"]].append(_build_run(run, at))
    return {"sessions": by_kind["job"], "plans": by_kind["plan"], "tracked": by_kind["track"]}


def _build_run(run: Row, at: Row) -> Row:
    tasks = run["tasks"]
    return {
        "id": run["id"],
        "name": run["name"],
        "status": run["status"],
        **{key: run.get(key) for key in ("state", "because", "next")},
        **at,
        "usd": run["usd"],
        "done": tasks["done"],
        "total": tasks["total"],
        "running": tasks["running"],
        "failed": tasks["failed"],
        "blockers": run["blockers"],
        "updated": run["updated_at"],
        "objective": run["objective"],
    }


def _build_event(event: Row) -> Row:
    keys = ("name", "phase_name", "subject", "description", "question", "message", "id", *_OTHER_NAMES)
    what = next((text for key in keys if (text := event["data"].get(key))), "")
    return {"seq": event["seq"], "ts": event["ts"], "type": event["type"], "what": what}


def _load_hook_failures(store_folder: Path) -> Row | None:
    count, newest = failure_log.read_last_failure(store_folder)
    return (
        {"count": count, "last": newest, "log": str(failure_log.get_log_path(store_folder))}
        if count
        else None
    )
