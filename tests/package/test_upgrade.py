"""This version opens a store of any released schema: nothing is lost, everything works."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from application import Clock, call_tool, list_events, make_app
from conftest import KINDS
from deepwork.delivery.store_adoption import adopt_store
from deepwork.edge.server.application import Application
from deepwork.gates.access.models import verify_chain
from deepwork.gates.access.store import AuditStore, TokenStore
from deepwork.kernel.database import schema
from deepwork.kernel.database.sqlite import SQLite
from deepwork.work.jobs.sessions.store import SessionStore
from deepwork.work.tracking.inbox import list_reviews
from package.old_stores import SCHEMAS, create_empty_location, create_old_store
from store_admin.stores import read_all_rows, run_sql

RELEASED = ["0001", "0002", "0003", "0004", "0005", "0006"]
A_DAY = 86_400
ODD = "ünï©ødé 日本語 \\N '\"%s :name {} 😀\ttab\nline"


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else ""
    with create_empty_location(request.param, tmp_path, url) as location:
        yield location


def test_every_released_schema_has_a_test_store():
    assert SCHEMAS[: len(RELEASED)] == RELEASED


@pytest.mark.differs
@pytest.mark.parametrize("version", SCHEMAS)
def test_a_store_of_an_older_schema_still_answers(version: str, place: str, tmp_path: Path):
    create_old_store(version, place)
    before = read_all_rows(place)
    if "://" not in place:
        adopt_store(SQLite(place), "human:ada")

    app = make_app(tmp_path, place, Clock(), lease_seconds=A_DAY)
    try:
        app.feed.get_last_seq()
        _nothing_is_lost(before, read_all_rows(place))
        assert dict(app.database.engine.describe())["schema"] == schema.HEAD
        assert not list(app.database.engine.find_problems())
        for since, works in WORKS.items():
            if since <= version:
                works(app)
    finally:
        app.close()


def test_a_migration_may_take_longer_than_a_call(tmp_path: Path, postgres_url: str):
    with create_empty_location("postgres", tmp_path, postgres_url) as location:
        create_old_store("0005", location)
        run_sql(location, _SLOW, "CREATE TRIGGER slow BEFORE UPDATE ON agents EXECUTE FUNCTION wait()")

        app = make_app(tmp_path, f"{location}&options=-c%20statement_timeout%3D2000", Clock())
        assert call_tool(app, "agent_list")["total"] > 0
        app.close()


_SLOW = """
    CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(3); RETURN NULL; END'
"""


CHANGED = {"alembic_version", "audit_head", "tokens", "passed_reviews"}
"""Tables whose rows an upgrade changes: tokens get keyed digests, and an adoption forgets passed reviews."""


def _nothing_is_lost(before: dict[str, list[Any]], after: dict[str, list[Any]]) -> None:
    for table, rows in before.items():
        if table in CHANGED:
            continue
        kept = [{name: _undo_mark(row[name]) for name in rows[0]} for row in after[table]] if rows else []
        if table == "audit":  # adopting the store adds an entry
            kept = [row for row in kept if row["tool"] != "db adopt"]
        assert sorted(kept, key=repr) == sorted(rows, key=repr), table


def _undo_mark(value: Any) -> Any:
    """Undo what an adoption does to JSON with the name of a person."""
    if not isinstance(value, str) or "unverified:" not in value:
        return value
    return json.dumps(json.loads(value.replace("unverified:", "")))


def _agents_messages_and_events(app: Application) -> None:
    last = app.feed.get_last_seq()
    ada, bob = (_agent(app, name) for name in ("Ada", "Bob"))
    [message] = call_tool(app, "message_list", agent_id=bob["id"])["messages"]
    assert call_tool(app, "message_get", id=message["id"])["body"] == ODD
    assert call_tool(app, "agent_get", id=ada["id"])["metadata"] == {"odd": ODD}

    again = call_tool(app, "agent_register", "the-same-call", name="once", runtime="custom")
    call_tool(
        app, "message_send", sender_id=bob["id"], recipient_id=ada["id"], message_type="query", body="New?"
    )

    assert again["id"] == _agent(app, "once")["id"], "a key used before the upgrade still has its answer"
    assert [event.seq for event in list_events(app, last)] == list(
        range(last + 1, app.feed.get_last_seq() + 1)
    )
    assert app.feed.get_last_seq() > last > 0


def _job_sessions(app: Application) -> None:
    with app.database.reading() as tx:
        [row] = tx.fetch_all("SELECT id FROM job_sessions")
        session = SessionStore(tx).find_session(row["id"])
    assert session is not None
    assert (session.name, session.status, session.current_step) == ("chain/main", "active", "a")
    assert session.goal == "try"


def _plans(app: Application) -> None:
    [plan] = call_tool(app, "workflow_list")["workflows"]
    tasks = {
        task["name"]: task
        for task in call_tool(app, "workflow_get", id=plan["id"], include_tasks=True)["tasks"]
    }
    holder = _agent(app, "Ada")["id"]
    assert {name: task["status"] for name, task in tasks.items()} == {
        "design": "in_progress", "build": "pending", "docs": "skipped",
    }  # fmt: skip
    assert call_tool(app, "workflow_search", query="zebra")["results"]
    [checkpoint] = call_tool(app, "checkpoint_list", task_id=tasks["design"]["id"])["checkpoints"]
    assert checkpoint["detail"] == {"n": -1, "big": 2**53}
    assert "ours" in {each["name"] for each in call_tool(app, "template_list")["templates"]}

    done = {"status": "completed", "outcome": "Designed.", "agent_id": holder}
    call_tool(app, "task_update_status", id=tasks["design"]["id"], **done)

    [ready] = call_tool(app, "workflow_next_tasks", workflow_id=plan["id"])["tasks"]
    assert ready["name"] == "build"
    assert call_tool(app, "task_claim", task_id=ready["id"], agent_id=holder)["success"]


def _teams(app: Application) -> None:
    [repository] = call_tool(app, "repository_list")["repositories"]
    assert repository["name"] == "shop"
    [plan] = call_tool(app, "workflow_list")["workflows"]
    [workspace] = call_tool(app, "workspace_list", workflow_id=plan["id"])["workspaces"]
    assert (workspace["branch"], workspace["status"]) == ("sso", "active")
    with app.database.reading() as tx:
        [token] = TokenStore(tx).list_all()
        record = AuditStore(tx)
        verdict = verify_chain(record.iterate_chain(), record.get_head(), record.get_key())
    is_adopted = "://" not in app.settings.database
    assert (token.name, token.scope, token.revoked_at is not None) == ("ci", "work", is_adopted)
    assert not token.is_person, "an upgrade gives no token the right to decide"
    assert verdict.problem is None
    assert verdict.rows > 24, "new calls follow the old ones"


def _tracking(app: Application) -> None:
    with app.database.reading() as tx:
        [workflow] = tx.fetch_all("SELECT id FROM tracked_workflows")
        [task] = tx.fetch_all("SELECT id FROM tracked_tasks WHERE name = 'second'")
    [decision] = call_tool(app, "get_context", workflow_id=workflow["id"], include=["decisions"])["decisions"]
    assert (decision["chosen"], decision["reasoning"]) == ("SQLite", ODD)
    call_tool(app, "log_milestone", task_id=task["id"], message="After the upgrade")
    assert "After the upgrade" in str(list_events(app)[-1].data)


def _reviews(app: Application) -> None:
    with app.database.reading() as tx:
        rows, total = list_reviews(tx, 10, since=0)
    # Whoever approved the other task is not known to the user who adopted the store.
    waiting = ["unsure"] if "://" in app.settings.database else ["approved", "unsure"]
    assert (sorted(str(row.task_name) for row in rows), total) == (waiting, len(waiting))


def _agent(app: Application, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(
        each for each in call_tool(app, "agent_list")["agents"] if each["name"] == name
    )
    return found


WORKS = {
    "0001": _agents_messages_and_events,
    "0002": _job_sessions,
    "0003": _plans,
    "0004": _teams,
    "0005": _tracking,
    "0006": _reviews,
}
