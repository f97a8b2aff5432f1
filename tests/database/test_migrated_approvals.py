"""Migration 0012 turns the milestones by which people decided into approvals; look-alikes stay milestones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from application import Clock, call_tool, make_app
from dashboard.make import create_client, read
from database.test_facts_as_columns import insert, make_milestone
from deepwork.edge.server.application import Application
from deepwork.gates.approvals.models import compute_digest
from deepwork.gates.approvals.store import ApprovalStore
from deepwork.kernel.database.sqlite import SQLite
from package.old_stores import create_empty_location, create_old_store
from store_admin.stores import run_sql

TASK = "tt_tsg9zf1tvcy6"
VERDICTS = {"approved": "given", "refused": "refused", "acknowledged": "given"}
DECISIONS: dict[str, tuple[str | None, str]] = {
    **{verdict: (json.dumps({"verdict": verdict, "by": "human:Ada"}), verdict) for verdict in VERDICTS},
    "in other letters": ('{"verdict": "Approved", "by": "human:Ada"}', "note"),
    "nested": ('{"more": {"verdict": "refused"}, "by": "human:Ada"}', "note"),
    "a list": ('{"verdict": ["refused"], "by": "human:Ada"}', "note"),
    "quoted": (json.dumps({"text": '"verdict": "refused"', "by": "human:Ada"}), "note"),
    "damaged": ('{"verdict": "refused", "by": "human:Ada"', "note"),
    "no object": ('["verdict", "refused"]', "note"),
    "without metadata": (None, "note"),
}
"""The metadata of milestones that a person logged, and the verdict that counts."""
LOOK_ALIKES: dict[str, dict[str, Any]] = {
    "by nobody": {"logged_by_person": None, "metadata": '{"verdict": "approved", "by": "human:Ada"}'},
    "in capitals": {"logged_by_person": "Human:Ada"},
    "with a space": {"logged_by_person": " human:Ada"},
    "unverified": {"logged_by_person": "unverified:human:Ada"},
    "of a planned task": {"logged_by_person": "human:Ada", "task_id": "tk_tsg9zf1tvcy6"},
    "of a step": {"logged_by_person": "human:Ada", "task_id": "tt0sg9zf/a"},
}


@pytest.fixture(params=["sqlite", "postgres"])
def upgraded(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An application on a migrated store of schema 0011 with all these milestones."""
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else ""
    with create_empty_location(request.param, tmp_path, url) as location:
        create_old_store("0011", location)
        run_sql(location, "DELETE FROM milestones")
        rows = [
            {**make_milestone(f"ml_{name}", metadata), "logged_by_person": "human:Ada"}
            for name, (metadata, _) in DECISIONS.items()
        ]
        rows += [{**make_milestone(f"ml_{name}", None), **columns} for name, columns in LOOK_ALIKES.items()]
        insert(location, "milestones", *rows)
        app = make_app(tmp_path, location, Clock())
        if isinstance(engine := app.database.engine, SQLite):

            def adopt_and_prepare() -> None:
                engine.take_over()  # without marking what people did as unverified
                SQLite.prepare(engine)

            monkeypatch.setattr(engine, "prepare", adopt_and_prepare)
        yield app
        app.close()


def test_only_decisions_of_people_become_approvals(upgraded: Application) -> None:
    with upgraded.database.reading() as tx:
        found, _ = ApprovalStore(tx).list_matching(statuses=None, workflow_id=None, limit=1000)
        kept = tx.fetch_value("SELECT count(*) FROM milestones")

    shown = {each.shown["milestone"]: each for each in found}
    assert set(shown) == {f"ml_{name}" for name in DECISIONS}
    for name, (_, verdict) in DECISIONS.items():
        approval = shown[f"ml_{name}"]
        assert approval.shown["verdict"] == verdict, name
        assert approval.status == VERDICTS.get(verdict, "given")
        assert (approval.subject_id, approval.decided_by, approval.comment) == (TASK, "human:Ada", "m")
        assert approval.digest == compute_digest(approval.shown)
    assert kept == len(DECISIONS) + len(LOOK_ALIKES)


def test_a_migrated_decision_counts_as_a_review(upgraded: Application) -> None:
    with upgraded.database.transaction() as tx:
        tx.execute(
            "UPDATE tracked_tasks SET manual_review_needed = TRUE, completed_at = :now", now=tx.now - 1
        )
        tx.execute("UPDATE approvals SET decided_at = :now WHERE status = 'refused'", now=tx.now)
    page = create_client(upgraded)

    assert TASK not in [each["id"] for each in read(page, "/home")["needs_you"]]
    with upgraded.database.transaction() as tx:
        tx.execute("DELETE FROM approvals")
    call_tool(upgraded, "log_milestone", task_id=TASK, message="Approved.", metadata={"verdict": "approved"})
    assert TASK in [each["id"] for each in read(page, "/home")["needs_you"]]
    call_tool(upgraded, "log_milestone", caller="human:ada", task_id=TASK, message="Good.")
    assert TASK not in [each["id"] for each in read(page, "/home")["needs_you"]]
