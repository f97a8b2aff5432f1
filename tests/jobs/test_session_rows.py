"""What the database knows of sessions and reviews, on every database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from application import list_event_types, list_events
from deepwork.edge.server.application import Application
from deepwork.edge.server.invocation import invoke
from deepwork.kernel.call import Call
from deepwork.work.jobs.sessions.store import SessionStore
from jobs.project import make_review, make_step, write_files, write_job


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write_files(tmp_path, "a.md", "b.md")
    write_job(tmp_path, "chain", [make_step("a", reviews=[make_review()]), make_step("b")])
    return tmp_path


def call(app: Application, tool: str, **arguments: Any) -> Any:
    return invoke(app.database, app.registry[tool], arguments, Call("local", tool))


def test_a_session_is_stored_and_emits_events_on_every_database(project: Path, app: Application):
    begun = call(app, "start_workflow", goal="try", job_name="chain", workflow_name="main")
    id = begun["begin_step"]["session_id"]
    assert call(app, "finished_step", outputs={"a.md": "a.md"})["status"] == "needs_work"
    call(app, "finished_step", outputs={"a.md": "a.md"}, quality_review_override_reason="looked at it")
    done = call(app, "finished_step", outputs={"b.md": "b.md"})

    assert done["status"] == "workflow_complete"
    assert list_event_types(app) == [
        "session:started",
        "session:updated",
        "session:updated",
        "session:completed",
    ]
    assert {event.workflow_id for event in list_events(app)} == {id}
    with app.database.reading() as tx:
        row = tx.fetch_one("SELECT status, generation FROM job_sessions WHERE id = :id", id=id)
    assert row == {"status": "completed", "generation": 4}


def test_an_older_state_never_replaces_a_newer_one(project: Path, app: Application):
    begun = call(app, "start_workflow", goal="try", job_name="chain", workflow_name="main")
    id = begun["begin_step"]["session_id"]
    old = app.sessions.load(id)
    call(app, "finished_step", outputs={"a.md": "a.md"})

    with app.database.transaction() as tx:
        assert not SessionStore(tx).save_if_newer(old, {})
        assert SessionStore(tx).get_generation(id) == 2
        assert SessionStore(tx).get_generation("nobody00") == 0
