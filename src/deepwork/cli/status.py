"""`deepwork status`: what is going on here, at a glance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deepwork.cli.options import json_option, place_options, settings_from
from deepwork.cli.output import lines, show
from deepwork.config import Settings
from deepwork.database.engine import Engine, open_engine
from deepwork.hooks import failures

if TYPE_CHECKING:
    from deepwork.dashboard.home import Home, Need
    from deepwork.dashboard.runs import RunLine
    from deepwork.events.log import Event

NEEDS_SHOWN = 10
ROWS_SHOWN = 20
EVENTS_SHOWN = 5


@click.command()
@place_options
@json_option
def status(path: str, database: str | None, global_store: bool, as_json: bool) -> None:
    """Say what is going on here: what runs, who holds what, and what waits for you.

    What is under way comes first; `deepwork dashboard` shows the same, live.
    """
    settings = settings_from(path, database=database, global_store=global_store)
    engine = open_engine(settings.database_location)
    is_made = engine.is_made()
    if not is_made and (place := Path(engine.address)).exists() and not place.is_file():
        engine.prepare()  # refuses, as it does for every command that opens the store
    answer = found(settings, engine) if is_made else nothing_yet(settings, engine)
    if as_json:
        show(answer, as_json=True)
    else:
        print("\n".join(_page(answer)))


def nothing_yet(settings: Settings, engine: Engine) -> dict[str, Any]:
    """What to say of a project in which nobody has used deepwork yet, and what to do first."""
    return {
        "project": str(settings.project_root),
        "store": None,
        "store_will_be": engine.address,
        "next": [
            "deepwork init  # writes .deepwork/config.yml for this project",
            "deepwork setup CLIENT  # makes your client start deepwork; without CLIENT it lists them",
            "deepwork doctor  # says whether all it needs is here",
        ],
    }


def found(settings: Settings, engine: Engine) -> dict[str, Any]:
    """Everything, in one view of the store."""
    from deepwork.dashboard.endpoints import Nothing, Sight
    from deepwork.dashboard.home import home
    from deepwork.events.log import EventStore
    from deepwork.hooks.store import UnderWayStore
    from deepwork.server.application import Application

    servers = list(_processes(engine.others()))  # before we open anything that would be counted
    engine.close()
    app = Application(settings)
    try:
        with app.database.reading() as tx:
            seen = home(Sight(tx, app.presence, {}), Nothing())
            store = UnderWayStore(tx)
            held, unread = store.holders(ROWS_SHOWN), store.inboxes(ROWS_SHOWN)
            steps = {row["id"]: row["step_id"] for row in store.jobs(ROWS_SHOWN)}
            events = EventStore(tx).after(seen.last_seq - EVENTS_SHOWN, EVENTS_SHOWN)
    finally:
        app.close()
    return {
        "project": str(settings.project_root),
        "store": engine.address,
        "servers": servers,
        "needs_you_total": seen.needs_you_total,
        "needs_you": [_need(need) for need in seen.needs_you[:NEEDS_SHOWN]],
        "counts": seen.counts.model_dump(mode="json"),
        **_runs(seen, steps),
        "held": held,
        "unread": unread,
        "events": [_event(event) for event in events],
        "hook_failures": _hook_failures(settings.store_folder),
    }


def _processes(others: Iterable[str] | None) -> Iterator[str]:
    """Who has the store open, with the words that started it where the system tells."""
    for name in others or ():
        number = name.removeprefix("pid ")
        try:
            words = Path(f"/proc/{number}/cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            yield name
            continue
        after = next((place for place, word in enumerate(words) if word.endswith("deepwork")), len(words))
        yield " ".join([name, *filter(None, words[after + 1 :])])[:200]


def _need(need: Need) -> dict[str, Any]:
    return {"kind": need.kind, "what": need.title, "run": need.run.name, "id": need.id, "since": need.since}


def _runs(seen: Home, steps: dict[str, str]) -> dict[str, list[dict[str, Any]]]:
    by_kind: dict[str, list[dict[str, Any]]] = {"job": [], "plan": [], "track": []}
    for run in seen.running:
        at = {"step": steps.get(run.id)} if run.kind == "job" else {}
        by_kind[run.kind].append(_run(run, at))
    return {"sessions": by_kind["job"], "plans": by_kind["plan"], "tracked": by_kind["track"]}


def _run(run: RunLine, at: dict[str, Any]) -> dict[str, Any]:
    tasks = run.tasks
    return {
        "id": run.id, "name": run.name, "status": run.status, **at, "done": tasks.done, "total": tasks.total,
        "running": tasks.running, "failed": tasks.failed, "blockers": run.blockers,
        "updated": run.updated_at, "objective": run.objective,
    }  # fmt: skip


def _event(event: Event) -> dict[str, Any]:
    what = event.data.get("name") or event.data.get("subject") or event.data.get("id") or ""
    return {"seq": event.seq, "ts": event.ts, "type": event.type, "what": what}


def _hook_failures(store_folder: Path) -> dict[str, Any] | None:
    count, newest = failures.last(store_folder)
    return {"count": count, "last": newest, "log": str(failures.log_file(store_folder))} if count else None


def _page(answer: dict[str, Any]) -> Iterator[str]:
    """For a person: what is there, and not a word on what is not."""
    if answer["store"] is None:
        yield f"Nothing is kept for {answer['project']} yet. Begin with:"
        yield from (f"  {command}" for command in answer["next"])
        return
    counts = answer["counts"]
    facts = {
        "project": answer["project"],
        "store": answer["store"],
        "open by": ", ".join(answer["servers"]) or "nobody else",
        "runs": f"{counts['running']} under way, {counts['blocked']} blocked,"
        f" {counts['completed']} completed, {counts['failed']} failed",
        "needs you": f"{answer['needs_you_total']}"
        + (" (`deepwork dashboard` shows them)" if answer["needs_you_total"] else ""),
    }
    if trouble := answer["hook_failures"]:
        facts["hooks"] = f"{trouble['count']} failures in {trouble['log']}; the last: {trouble['last']}"
    yield from lines(facts)
    for title in ("needs_you", "sessions", "plans", "tracked", "held", "unread", "events"):
        if answer[title]:
            yield ""
            yield from lines({title.replace("_", " "): answer[title]})[:-1]
    if not any(counts.values()):
        yield "\nNo work yet. An agent begins it, or you: `deepwork jobs list`, `deepwork plans create`."
