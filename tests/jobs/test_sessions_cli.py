"""`deepwork sessions`, run as a person would."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.run import CommandResult, run_deepwork
from jobs.project import make_review, make_step, write_files, write_job
from jobs.runs import finish_step, get_session, open_app, start_job


def sessions(root: Path, *words: str) -> CommandResult:
    return run_deepwork(root, "sessions", *words, "--db", "deepwork.db")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_files(tmp_path, "a.md", "b.md")
    write_job(tmp_path, "chain", [make_step("a", reviews=[make_review()]), make_step("b")])
    return tmp_path


@pytest.fixture
def id(root: Path) -> str:
    """A session at its second step."""
    app = open_app(root)
    id = start_job(app, goal="write\x1b[31m it")
    finish_step(app, "a.md")
    finish_step(app, "a.md", quality_review_override_reason="read by Ada", notes="went well")
    app.close()
    return id


def test_list_shows_active_sessions(root: Path, id: str):
    ran = sessions(root, "list")

    assert (ran.code, ran.err) == (0, "")
    assert all(word in ran.out for word in (id, "chain/main", "active", "write"))
    assert "\x1b" not in ran.out
    assert [each["step"] for each in sessions(root, "list", "--json").json["sessions"]] == ["b"]


def test_list_reports_that_there_are_no_active_sessions(root: Path):
    assert "no active sessions" in sessions(root, "list").out


def test_show_prints_steps_reviews_and_override_reasons(root: Path, id: str):
    ran = sessions(root, "show", id)

    assert all(word in ran.out for word in ("completed", "current", "a.md", "went well", "read by Ada"))
    kept = sessions(root, "show", id, "--json").json
    assert kept["step_progress"]["a"]["quality_attempts"] == 1
    assert kept["overrides"][0]["reason"] == "read by Ada"


def test_resume_prints_the_current_step(root: Path, id: str):
    ran = sessions(root, "resume", id)

    assert all(word in ran.out for word in ("Do b.", "b.md (file)", id))
    assert sessions(root, "resume", id, "--json").json["begin_step"]["step_id"] == "b"


def test_abort_stores_the_explanation(root: Path, id: str):
    assert sessions(root, "abort", id).code == 2

    ran = sessions(root, "abort", id, "--explanation", "no longer needed")

    assert ran.code == 0
    assert get_session(open_app(root), id)["abort_reason"] == "no longer needed"
    assert sessions(root, "list", "--all", "--json").json["sessions"][0]["status"] == "aborted"


@pytest.mark.parametrize("verb", ["show", "resume"])
def test_an_unknown_session_is_reported_in_one_sentence(root: Path, verb: str):
    ran = sessions(root, verb, "zzzzzzzz")

    assert (ran.code, ran.out) == (1, "")
    assert "There is no session 'zzzzzzzz'" in ran.err
