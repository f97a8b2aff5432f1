"""What the database knows of sessions and reviews, on every database."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from application import events, told
from deepwork.database.call import Call
from deepwork.jobs.store import SessionStore
from deepwork.server.application import Application
from deepwork.server.invocation import invoke_async
from jobs.project import job, review, step, write


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write(tmp_path, "a.md", "b.md")
    job(tmp_path, "chain", [step("a", reviews=[review()]), step("b")])
    return tmp_path


def call(app: Application, tool: str, **arguments: Any) -> Any:
    return asyncio.run(invoke_async(app.registry[tool], arguments, Call("local", tool)))


def test_a_run_is_kept_and_told_on_every_database(project: Path, app: Application):
    begun = call(app, "start_workflow", goal="try", job_name="chain", workflow_name="main")
    id = begun["begin_step"]["session_id"]
    assert call(app, "finished_step", outputs={"a.md": "a.md"})["status"] == "needs_work"
    call(app, "finished_step", outputs={"a.md": "a.md"}, quality_review_override_reason="looked at it")
    done = call(app, "finished_step", outputs={"b.md": "b.md"})

    assert done["status"] == "workflow_complete"
    assert told(app) == ["session:started", "session:updated", "session:updated", "session:completed"]
    assert {event.workflow_id for event in events(app)} == {id}
    with app.database.reading() as tx:
        row = tx.one("SELECT status, generation FROM job_sessions WHERE id = :id", id=id)
    assert row == {"status": "completed", "generation": 4}


def test_an_older_state_never_replaces_a_newer_one(project: Path, app: Application):
    begun = call(app, "start_workflow", goal="try", job_name="chain", workflow_name="main")
    id = begun["begin_step"]["session_id"]
    old = app.sessions.files.load(id)
    call(app, "finished_step", outputs={"a.md": "a.md"})

    with app.database.transaction() as tx:
        assert not SessionStore(tx).follow(old, {})
        assert SessionStore(tx).generation(id) == 2
        assert SessionStore(tx).generation("nobody00") == 0
