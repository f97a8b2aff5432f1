"""Migration 0007 turns facts in JSON text into columns: real ones count, text that looks like them does not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from application import Clock, call_tool, make_app
from conftest import KINDS
from dashboard.make import create_client, read
from deepwork.edge.server.application import Application
from deepwork.kernel.database.sqlite import SQLite
from deepwork.work.tracking.inbox import list_reviews
from package.old_stores import create_empty_location, create_old_store
from store_admin.stores import run_sql

TASK = "tt_tsg9zf1tvcy6"
"""An ended task of the old store."""
MANY = 1200
"""More rows than the migration reads at a time."""

APPROVAL = {"verdict": "approved", "by": "human:Ada"}
NO_APPROVALS: dict[str, str | None] = {
    "by an agent": '{"by": "Ada"}',
    "in a nested object": '{"more": {"by": "human:Ada"}}',
    "in a list": '{"all": [{"by": "human:Ada"}]}',
    "quoted in a title": json.dumps({"title": '"by": "human:Ada"'}),
    "under a key that ends like it": json.dumps({'x"by': "human:Ada"}),
    "under another key": '{"verdict": "human:Ada"}',
    "not a string": '{"by": ["human:Ada"]}',
    "not at the start": '{"by": "not human:Ada"}',
    "in other letters": '{"by": "Human:Ada"}',
    "not an object": '["by", "human:Ada"]',
    "damaged": '{"by": "human:Ada"',
    "nowhere": None,
}


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A store of schema 0006, without facts: the tests insert their own."""
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else ""
    with create_empty_location(request.param, tmp_path, url) as location:
        create_old_store("0006", location)
        reviews = "outcome LIKE '%_needed\": true%'"
        run_sql(location, "DELETE FROM milestones", f"DELETE FROM tracked_tasks WHERE {reviews}")
        yield location


@pytest.fixture
def upgraded(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Application]:
    """An application on that store, which is migrated by its first use."""
    app = make_app(tmp_path, place, Clock())
    if isinstance(engine := app.database.engine, SQLite):

        def adopt_and_prepare() -> None:
            engine.take_over()  # without marking what people did as unverified
            SQLite.prepare(engine)

        monkeypatch.setattr(engine, "prepare", adopt_and_prepare)
    yield app
    app.close()


def insert(location: str, table: str, *rows: dict[str, Any]) -> None:
    columns = ", ".join(rows[0])
    values = ", ".join(f"({', '.join(map(_to_literal, row.values()))})" for row in rows)
    run_sql(location, f"INSERT INTO {table} ({columns}) VALUES {values}")


def _to_literal(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return json.dumps(value)  # null, true, false and numbers look the same in SQL


def fetch(app: Application, sql: str) -> list[tuple[Any, ...]]:
    with app.database.reading() as tx:
        return [tuple(row.values()) for row in tx.fetch_all(sql)]


def make_milestone(id: str, metadata: str | None) -> dict[str, Any]:
    return {
        "id": id, "workflow_id": "tw_j60iuiilahwg", "task_id": TASK, "task_name": "build", "message": "m",
        "metadata": metadata, "created_at": 1_800_000_000_001,
    }  # fmt: skip


def make_tracked_task(id: str, outcome: str) -> dict[str, Any]:
    return {
        "id": id, "workflow_id": "tw_j60iuiilahwg", "phase_id": "ph_h4bvgvv361m7", "name": id, "goal": "g",
        "status": "success", "caller_type": "subagent", "areas": "[]", "started_at": 1, "last_sign_at": 1,
        "completed_at": 1, "outcome": outcome, "metadata": "{}", "result": "{}", "tokens": 0,
        "created_by": "local",
    }  # fmt: skip


def make_planned_task(number: int, context: str) -> dict[str, Any]:
    return {
        "id": f"tk_{number}", "workflow_id": "wf_ixje3qj49xyr", "position": 100 + number,
        "name": f"planned {number}", "description": "", "status": "pending", "sequence": 1,
        "is_explicit": True, "open_dependencies": 0, "context": context, "attempts": 0, "checkpoints": 0,
        "created_at": 1, "updated_at": 1,
    }  # fmt: skip


def make_session(id: str, data: str) -> dict[str, Any]:
    return {
        "id": id, "job_name": "letter", "workflow_name": "main", "status": "completed", "step_id": "a",
        "generation": 1, "started_at": "2026-11-16T10:31:08.198Z", "updated_at": 1, "data": data,
    }  # fmt: skip


def test_only_milestones_logged_by_a_person_count_as_reviews(place: str, upgraded: Application):
    texts = {f"tt_no {reason}": text for reason, text in NO_APPROVALS.items()}
    texts["tt_approval"] = json.dumps(APPROVAL)
    insert(place, "tracked_tasks", *(make_tracked_task(id, '{"manual_review_needed": true}') for id in texts))
    insert(place, "milestones", *(make_milestone(id, text) | {"task_id": id} for id, text in texts.items()))

    with upgraded.database.reading() as tx:
        rows, total = list_reviews(tx, 100, since=0)

    persons = "SELECT id, logged_by_person FROM milestones WHERE logged_by_person IS NOT NULL"
    assert fetch(upgraded, persons) == [("tt_approval", "human:Ada")]
    assert {row.id for row in rows} == set(texts) - {"tt_approval"}
    assert total == len(rows)


def test_every_approval_of_a_large_store_is_found(place: str, upgraded: Application):
    rows = [make_milestone(f"ml_{number}", json.dumps(APPROVAL)) for number in range(MANY)]
    insert(place, "milestones", *rows)

    assert fetch(upgraded, "SELECT count(logged_by_person) FROM milestones") == [(MANY,)]


def test_only_a_true_flag_in_the_outcome_requires_a_manual_review(place: str, upgraded: Application):
    outcomes = {
        "tt_true": '{"summary": "s", "manual_review_needed": true}',
        "tt_false": '{"manual_review_needed": false}',
        "tt_nested": '{"more": {"manual_review_needed": true}}',
        "tt_quoted": json.dumps({"summary": '"manual_review_needed": true'}),
        "tt_text": '{"manual_review_needed": "true"}',
        "tt_damaged": '{"manual_review_needed": true',
    }
    insert(place, "tracked_tasks", *(make_tracked_task(id, text) for id, text in outcomes.items()))

    assert fetch(upgraded, "SELECT id FROM tracked_tasks WHERE manual_review_needed") == [("tt_true",)]


def test_required_capabilities_become_rows(place: str, upgraded: Application):
    contexts = [
        '{"required_capabilities": ["sql", "go", "sql"]}',
        '{"required_capabilities": "rust"}',
        '{"required_capabilities": [1, null, {"required_capabilities": ["no"]}]}',
        '{"notes": {"required_capabilities": ["no"]}}',
        json.dumps({"notes": '"required_capabilities": ["no"]'}),
        '{"required_capabilities": ["no"',
    ]
    insert(place, "plan_tasks", *(make_planned_task(number, text) for number, text in enumerate(contexts)))

    found = fetch(upgraded, "SELECT task_id, capability FROM plan_capabilities ORDER BY task_id, number")

    assert found == [("tk_0", "go"), ("tk_0", "sql"), ("tk_1", "rust")]


def test_after_the_upgrade_a_task_is_offered_only_to_agents_that_can_do_it(place: str, upgraded: Application):
    contexts = ['{"required_capabilities": ["sql", "go"]}', '{"notes": {"required_capabilities": ["c"]}}']
    insert(place, "plan_tasks", *(make_planned_task(number, text) for number, text in enumerate(contexts)))

    for capabilities, expected in (((), ["tk_1"]), (("sql",), ["tk_1"]), (("go", "sql"), ["tk_0", "tk_1"])):
        agent = call_tool(
            upgraded, "agent_register", name="A", runtime="custom", capabilities=list(capabilities)
        )
        for workflow in ({}, {"workflow_id": "wf_ixje3qj49xyr"}):
            answer = call_tool(upgraded, "task_get_available", agent_id=agent["id"], **workflow)
            offered = [task["id"] for task in answer["tasks"] if task["id"] in ("tk_0", "tk_1")]
            assert (offered, answer["total_available"]) == (expected, len(answer["tasks"]))


def test_the_goals_of_job_sessions_can_be_searched(place: str, upgraded: Application):
    step = {"notes": '"goal": "hidden", "entries":'}
    whole = {"entries": [{"steps": ["a"]}], "step_progress": {"a": step}}
    goals = {"s_plain": "Write to Größe 10%", "s_quotes": 'Say "hi", "entries": []'}
    insert(
        place,
        "job_sessions",
        *(make_session(id, json.dumps({"goal": goal, **whole})) for id, goal in goals.items()),
        make_session("s_unstorable", json.dumps({"goal": "a\0b\ud800", **whole})),
        make_session("s_missing", json.dumps({"data": {"goal": "hidden"}, **whole})),
        make_session("s_damaged", '{"goal": "hidden"'),
    )

    found = dict(fetch(upgraded, "SELECT id, goal FROM job_sessions WHERE job_name = 'letter'"))
    run_sql(place, "DELETE FROM job_sessions WHERE id = 's_damaged'")

    assert found == goals | {"s_unstorable": "ab?", "s_missing": "", "s_damaged": ""}
    client = create_client(upgraded)
    for words, ids in (
        ("größe 10%", ["s_plain"]),
        ('"hi", "e', ["s_quotes"]),
        ("hidden", []),
        ("step_pro", []),
    ):
        assert [run["id"] for run in read(client, "/runs", q=words)["runs"]] == ids, words
