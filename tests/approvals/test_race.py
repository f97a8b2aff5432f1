"""Eight processes change, approve and claim one plan at the same time: no task is handed out unseen."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from application import call_tool, make_app

ROLES = ("modify", "modify", "modify", "approve", "approve", "approve", "claim", "claim")
ROUNDS = 4


def test_only_content_that_a_person_approved_is_handed_out(tmp_path: Path, location: str) -> None:
    app = make_app(tmp_path, location)
    created = call_tool(app, "workflow_create", name="Race", source_type="prompt", source_content="x")
    tasks = [{"name": "task first"}]
    plan = {"summary": "s", "tasks": tasks, "approve_plan": True}
    call_tool(app, "workflow_set_plan", id=created["id"], plan=plan)

    processes = [
        subprocess.Popen(
            [
                sys.executable,
                str(Path(__file__).with_name("race.py")),
                role,
                str(tmp_path),
                location,
                created["id"],
                str(number),
                str(ROUNDS),
            ],
            stdout=subprocess.PIPE,
        )
        for number, role in enumerate(ROLES)
    ]
    printed = [json.loads(process.communicate(timeout=240)[0]) for process in processes]

    with app.database.reading() as tx:
        rows = tx.fetch_all("SELECT shown, status, decided_at FROM approvals WHERE decided_at IS NOT NULL")
        pending = tx.fetch_value("SELECT count(*) FROM approvals WHERE status = 'pending'")
    approved = {task["name"] for row in rows for task in json.loads(row["shown"])["tasks"]}
    handed_out = {
        name for role, seen in zip(ROLES, printed, strict=True) if role == "claim" for [name] in seen
    }
    assert handed_out <= approved
    assert pending <= 1
    assert all(process.returncode == 0 for process in processes)
    app.close()
