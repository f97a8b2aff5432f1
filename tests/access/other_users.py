"""Stores of another user: made with another home folder, and so with another key."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from access.make import make_token
from application import call_tool, make_app
from tracking import make as track


@contextmanager
def use_home(folder: Path) -> Iterator[None]:
    """Be the user with this home folder."""
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        yield


def run_git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, env=dict(os.environ))


def create_repository(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    run_git(folder, "init", "-q")
    for key, value in (("user.name", "Eve"), ("user.email", "eve@example.org")):
        run_git(folder, "config", key, value)
    return folder


def fill_store(project: Path) -> str:
    """Fill the project's store with an approval by a person and a passed review; return an admin token."""
    app = make_app(project, "")
    try:
        call_tool(app, "agent_register", name="Eve", runtime="custom")
        token, _, _ = make_token(app, "evil", "admin")
        issue = track.create_blocker(app, track.create_task(app, track.create_workflow_and_phase(app)))
        call_tool(app, "resolve_issue", caller="human:owner", issue_id=issue, note="Approved.")
        with app.database.transaction() as tx:
            tx.execute("INSERT INTO passed_reviews (mark, passed_at) VALUES ('rv_forged', 1)")
            tx.execute(
                "INSERT INTO person_credentials (id, method, name, data, created_at)"
                " VALUES ('pc_forged', 'passphrase', 'known to Eve', '{}', 1)"
            )
        return token
    finally:
        app.close()
