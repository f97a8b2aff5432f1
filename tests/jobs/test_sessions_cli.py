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
    assert all(word in ran.out for word in (id, "chain/main", "running", "write"))
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


@pytest.fixture
def held(root: Path) -> str:
    """A session whose first step is at its gate."""
    app = open_app(root)
    id = start_job(app)
    finish_step(app, "a.md")
    app.close()
    return id


def test_a_person_lets_a_step_pass(root: Path, held: str):
    assert "at its gate" in sessions(root, "show", held).out

    ran = sessions(root, "pass", held[:5], "--comment", "Good enough.")

    assert (ran.code, ran.err) == (0, "")
    assert "next call is answered with step b" in ran.out
    shown = sessions(root, "show", held)
    assert all(word in shown.out for word in ("Good enough.", "human:", "passed"))


def test_a_person_sends_a_step_back_or_grants_a_review(root: Path, held: str):
    granted = sessions(root, "grant-round", held[:5])
    back = sessions(root, "send-back", held[:5], "Name the sources.", "--step-id", "a", "--json")

    assert "may be reviewed 3 more times" in granted.out
    assert (back.json["decision"], back.json["text"]) == ("sent_back", "Name the sources.")
    app = open_app(root)
    assert "Name the sources." in finish_step(app, "a.md", session_id=held)["feedback"]
    app.close()


def test_a_decision_without_an_open_gate_names_the_next_step(root: Path, id: str):
    ran = sessions(root, "pass", id)

    assert (ran.code, ran.out) == (1, "")
    assert "not at its quality gate" in ran.err
    assert "sessions abort" in ran.err
    assert "There is no session 'zzzzzzzz'" in sessions(root, "pass", "zzzzzzzz").err
