"""A person decides about a step at its quality gate, and the agent's next call shows it."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from application import list_event_types
from deepwork.edge.server.application import Application
from deepwork.edge.server.invocation import invoke
from deepwork.kernel.call import Call
from deepwork.kernel.errors import DeepworkError, NotFound, StorageError, ToolError
from deepwork.kernel.notices.store import NoticeStore
from deepwork.views.hooks.rendering import _render_own_jobs
from deepwork.work.jobs.decisions import drop_read_send_backs
from deepwork.work.jobs.quality_gate import ReviewResult, SentBack
from deepwork.work.jobs.sessions import files, state_manager
from jobs.project import make_review, make_step, write_files, write_job
from jobs.runs import call_job_tool, finish_step, get_session, open_app, start_job

PERSON = "human:ada"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_files(tmp_path, "a.md", "b.md")
    steps = [make_step("a", reviews=[make_review()]), make_step("b", reviews=[make_review()])]
    write_job(tmp_path, "chain", steps)
    write_job(tmp_path, "plain", [make_step("a")])
    return tmp_path


@pytest.fixture
def app(root: Path) -> Application:
    return open_app(root)


@pytest.fixture
def id(app: Application) -> str:
    """A session whose first step is at its gate."""
    id = start_job(app)
    assert finish_step(app, "a.md")["status"] == "needs_work"
    return id


def decide(app: Application, action: str, session_id: str, key: str | None = None, **given: Any) -> Any:
    call = Call(PERSON, action, key)
    return invoke(app.database, app.operations[action], {"session_id": session_id, **given}, call)


def list_decisions(answer: Any) -> list[tuple[str, str, str | None]]:
    return [(each["step_id"], each["decision"], each["text"]) for each in answer.get("decisions", ())]


# Pass


def test_pass_completes_the_step_with_the_submitted_outputs_and_the_job_goes_on(app: Application, id: str):
    answer = decide(app, "pass_step", id, comment="Good enough.")

    assert (answer["status"], answer["next_step"], answer["by"]) == ("next_step", "b", PERSON)
    session = get_session(app, id)
    assert session["current_step_id"] == "b"
    assert session["step_progress"]["a"]["outputs"] == {"a.md": "a.md"}
    assert session["step_progress"]["a"]["submitted_outputs"] is None
    [made] = session["decisions"]
    assert (made["by"], made["decision"], made["text"]) == (PERSON, "passed", "Good enough.")
    assert session["overrides"] == []


def test_a_pass_is_in_the_audit_log_and_an_event(app: Application, id: str):
    decide(app, "pass_step", id)

    assert list_event_types(app)[-1] == "session:updated"
    with app.database.reading() as tx:
        last = tx.fetch_one("SELECT caller, tool, outcome FROM audit ORDER BY seq DESC LIMIT 1")
    assert last == {"caller": PERSON, "tool": "pass_step", "outcome": "done"}


@pytest.mark.parametrize("step_id", [None, "a"])
def test_a_report_of_a_step_that_a_person_passed_is_answered_with_the_next_step(
    app: Application, id: str, step_id: str | None
):
    decide(app, "pass_step", id, comment="Fine.")

    answer = finish_step(app, "a.md", **({"step_id": step_id} if step_id else {}))

    assert (answer["status"], answer["begin_step"]["step_id"]) == ("next_step", "b")
    assert list_decisions(answer) == [("a", "passed", "Fine.")]
    # The decision is known now: the next report is one of step b.
    assert finish_step(app, "b.md")["status"] == "needs_work"


def test_get_session_shows_a_pass_and_the_next_step_can_be_reported_at_once(app: Application, id: str):
    decide(app, "pass_step", id, comment="Fine.")

    view = call_job_tool(app, "get_session")

    assert view["begin_step"]["step_id"] == "b"
    assert list_decisions(view) == [("a", "passed", "Fine.")]
    assert finish_step(app, "b.md")["feedback"].startswith("Quality review needed")


def test_passing_the_last_step_completes_the_workflow_and_the_agent_is_told_so(app: Application, id: str):
    decide(app, "pass_step", id)
    finish_step(app, "a.md")
    finish_step(app, "b.md")

    answer = decide(app, "pass_step", id, comment="Ship it.")
    told = finish_step(app, "b.md")

    assert (answer["status"], answer["next_step"]) == ("workflow_complete", None)
    assert told["status"] == "workflow_complete"
    assert told["all_outputs"] == {"a.md": "a.md", "b.md": "b.md"}
    assert list_decisions(told) == [("b", "passed", "Ship it.")]
    assert list_event_types(app).count("session:completed") == 1
    with pytest.raises(DeepworkError, match="No active workflow session"):
        finish_step(app, "b.md")


@pytest.mark.parametrize("given", [{}, {"step_id": "b"}])
@pytest.mark.parametrize("reads_first", [True, False])
def test_a_report_after_the_last_step_was_passed_does_not_open_the_session_again(
    app: Application, id: str, given: dict[str, str], reads_first: bool
):
    decide(app, "pass_step", id)
    finish_step(app, "a.md")
    finish_step(app, "b.md")
    decide(app, "pass_step", id)
    if reads_first:
        assert get_session(app, id)["status"] == "completed"
    before = app.sessions.load(id)

    answer = finish_step(app, "b.md", **given)

    assert (answer["status"], answer["review"], answer["stack"]) == ("workflow_complete", "person", [])
    assert answer["all_outputs"] == {"a.md": "a.md", "b.md": "b.md"}
    after = app.sessions.load(id)
    assert (after.status, after.step_progress) == (before.status, before.step_progress)
    with pytest.raises(DeepworkError, match="No active workflow session"):
        finish_step(app, "b.md")


def test_another_process_can_pass_the_last_step_too(root: Path, app: Application, id: str):
    other = open_app(root)
    decide(other, "pass_step", id)
    finish_step(app, "a.md")
    finish_step(app, "b.md")
    decide(other, "pass_step", id)

    assert finish_step(app, "b.md")["status"] == "workflow_complete"
    other.close()


def test_a_pass_needs_the_submitted_files(root: Path, app: Application, id: str):
    (root / "a.md").unlink()

    with pytest.raises(ToolError, match=r"not complete any more: .*file not found at 'a.md'") as refused:
        decide(app, "pass_step", id)

    assert "send the step back" in refused.value.suggestion
    assert get_session(app, id)["decisions"] == []


# Send back


def test_send_back_gives_the_agent_the_text_before_its_work_is_reviewed_again(app: Application, id: str):
    answer = decide(app, "send_back_step", id, text="Name the sources.")

    assert (answer["status"], answer["attempts_left"]) == ("needs_work", 3)
    told = finish_step(app, "a.md")
    assert (told["status"], told["feedback"]) == (
        "needs_work",
        "human:ada sent this step back: Name the sources.",
    )
    assert get_session(app, id)["step_progress"]["a"]["quality_attempts"] == 0
    again = finish_step(app, "a.md")
    assert again["feedback"].startswith("Quality review needed")
    assert "decisions" not in again


def test_the_text_stays_with_the_step_until_it_is_done(app: Application, id: str):
    decide(app, "send_back_step", id, text="Name the sources.")
    finish_step(app, "a.md")

    step = call_job_tool(app, "get_session")["begin_step"]
    assert list_decisions(step) == [("a", "sent_back", "Name the sources.")]
    gone = call_job_tool(app, "go_to_step", step_id="a")
    assert "decisions" not in gone["begin_step"]


def test_go_to_step_shows_the_decision(app: Application, id: str):
    decide(app, "send_back_step", id, text="Name the sources.")

    assert list_decisions(call_job_tool(app, "go_to_step", step_id="a")) == [
        ("a", "sent_back", "Name the sources.")
    ]


# Grant a round


class FailingReview:
    """Stands for a reviewer with which nothing passes."""

    def build_submission(self, *_: Any) -> object:
        return object()

    def review(self, *_: Any) -> SentBack:
        return SentBack("Too long.", (ReviewResult("step", None, False, "Too long."),))


def test_a_granted_round_allows_one_more_failure(root: Path):
    app = open_app(root)
    app.jobs.tools._gate._service = FailingReview()  # type: ignore[assignment]
    id = start_job(app)
    for _ in range(2):
        finish_step(app, "a.md")
    with pytest.raises(ToolError, match="after 3 attempts") as stuck:
        finish_step(app, "a.md")
    assert f"`deepwork sessions pass {id}`" in stuck.value.suggestion

    granted = [decide(app, "grant_round", id)["attempts_left"] for _ in range(2)]

    assert granted == [1, 2]
    answer = finish_step(app, "a.md")
    assert answer["status"] == "needs_work"
    assert list_decisions(answer) == [("a", "round_granted", None)] * 2
    with pytest.raises(ToolError, match="after 5 attempts"):
        finish_step(app, "a.md")


# Wrong states


@pytest.mark.parametrize("action", ["pass_step", "send_back_step", "grant_round"])
def test_without_an_open_gate_a_decision_is_refused(app: Application, action: str):
    given = {"text": "x"} if action == "send_back_step" else {}
    id = start_job(app)

    with pytest.raises(ToolError, match="not at its quality gate") as refused:
        decide(app, action, id, **given)
    assert "deepwork sessions abort" in refused.value.suggestion
    with pytest.raises(NotFound):
        decide(app, action, "zzzzzzzz", **given)
    call_job_tool(app, "abort_workflow", explanation="enough")
    with pytest.raises(DeepworkError, match="is aborted"):
        decide(app, action, id, **given)


def test_a_decision_about_a_step_that_is_not_current_any_more_is_refused(app: Application, id: str):
    decide(app, "pass_step", id)
    finish_step(app, "a.md")
    finish_step(app, "b.md")

    with pytest.raises(ToolError, match=f"session {id} is at 'b'"):
        decide(app, "pass_step", id, step_id="a")


def test_a_repeated_key_decides_once(app: Application, id: str):
    first, again = (decide(app, "grant_round", id, key="k1") for _ in range(2))

    assert first == again
    assert len(get_session(app, id)["decisions"]) == 1


def test_a_decision_does_not_wait_for_a_running_review(
    app: Application, id: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(state_manager, "PERSON_WAIT_SECONDS", 0)
    other = open_app(app.settings.project_root)

    with app.sessions._files.lock(id), pytest.raises(ToolError, match="may be in review"):
        decide(other, "pass_step", id)
    assert get_session(app, id)["decisions"] == []
    other.close()


def test_a_session_file_of_an_earlier_version_can_be_read(app: Application, id: str):
    session = app.sessions.load(id)
    old = {name: value for name, value in vars(session).items() if name != "decisions"}
    body = files._to_json({"schema": files.SCHEMA, **old})[1:-1]
    content = f'{{\n{body},\n  "sha256": "{files._hash_body(body)}"\n}}\n'.encode()

    assert files._parse(content).decisions == ()


def test_the_session_start_hook_names_the_decision(app: Application, id: str):
    decide(app, "send_back_step", id, text="Name the sources.")

    with app.database.reading() as tx:
        row = tx.fetch_one("SELECT *, NULL AS approval_id FROM job_sessions WHERE id = :id", id=id)
    assert row is not None
    [line] = _render_own_jobs([row])
    assert line.endswith('Step "a": "human:ada" sent it back: "Name the sources."')


# Notices


def list_waiting_texts(app: Application, id: str) -> list[tuple[str, str]]:
    """What the next hook of the agent would show, with its type."""
    with app.database.reading() as tx:
        return [(each.type.value, each.text) for each in NoticeStore(tx).list_waiting([], [id], 9)]


@pytest.mark.parametrize(
    ("action", "given", "type", "words"),
    [
        (
            "pass_step",
            {"comment": "Good enough"},
            "passed",
            'passed its quality gate: Good enough. Continue with step "b"',
        ),
        ("send_back_step", {"text": "Add a title."}, "sent_back", "was sent back: Add a title. Do it again"),
        ("grant_round", {}, "round_granted", "may be reviewed once more."),
    ],
)
def test_a_decision_is_a_notice_for_the_agent_of_the_session(
    app: Application, id: str, action: str, given: dict[str, str], type: str, words: str
):
    decide(app, action, id, **given)

    [(shown_type, text)] = list_waiting_texts(app, id)
    assert shown_type == type
    assert words in text


def test_an_answer_that_shows_the_decision_settles_its_notice(app: Application, id: str):
    decide(app, "send_back_step", id, text="Add a title.")

    finish_step(app, "a.md")

    assert list_waiting_texts(app, id) == []


def carry_by_hook(app: Application, id: str) -> None:
    """Do what a hook of the session's agent does with the notices that it shows."""
    with app.database.transaction() as tx:
        store = NoticeStore(tx)
        assert store.mark_carried([each.id for each in store.list_waiting([], [id], 9)])


def save_owner(app: Application, id: str, owner: str) -> None:
    app.sessions._files.save(replace(app.sessions.load(id), owner=owner))


VERDICTS = [
    {"review_run_each": "step", "passed": True, "criteria_results": [{"criterion": "Good", "passed": True}]}
]


def test_work_after_a_hook_showed_the_send_back_is_reviewed_at_once(app: Application, id: str):
    decide(app, "send_back_step", id, text="Add a title.")
    carry_by_hook(app, id)

    answer = finish_step(app, "a.md", review_results=VERDICTS)

    assert (answer["status"], answer["review"]) == ("next_step", "self_review")
    assert "decisions" not in answer


def test_a_step_that_was_sent_back_again_is_answered_again(app: Application, id: str):
    decide(app, "send_back_step", id, text="Add a title.")
    carry_by_hook(app, id)
    finish_step(app, "a.md")
    decide(app, "send_back_step", id, text="A shorter one.")

    assert finish_step(app, "a.md")["feedback"].endswith("sent this step back: A shorter one.")


def test_who_takes_a_session_over_reads_the_send_back(root: Path, app: Application, id: str):
    decide(app, "send_back_step", id, text="Add a title.")
    carry_by_hook(app, id)
    save_owner(app, id, f"{socket.gethostname()}/1/0")  # exited: process 1 started at another time
    other = open_app(root)

    answer = finish_step(other, "a.md")

    assert (answer["taken_over"], answer["status"]) == (True, "needs_work")
    assert answer["feedback"].endswith("sent this step back: Add a title.")
    other.close()


def test_without_the_database_a_send_back_is_answered(
    app: Application, id: str, monkeypatch: pytest.MonkeyPatch
):
    decide(app, "send_back_step", id, text="Add a title.")
    carry_by_hook(app, id)
    session = app.sessions.load(id)

    def fail() -> Any:
        raise StorageError("The store is away.")

    monkeypatch.setattr(app.database, "reading", fail)
    assert drop_read_send_backs(app.database, session, session.decisions) == list(session.decisions)


def test_get_session_settles_the_notices_of_the_decisions_that_it_shows(app: Application, id: str):
    decide(app, "send_back_step", id, text="Add a title.")

    assert list_decisions(call_job_tool(app, "get_session")) == [("a", "sent_back", "Add a title.")]

    assert list_waiting_texts(app, id) == []
    assert finish_step(app, "a.md")["feedback"].startswith("Quality review needed")


@pytest.mark.parametrize("call", [{"caller": "other"}, {"scope": "read"}, {"carries_notices": False}])
def test_who_only_looks_at_a_session_leaves_its_notices(app: Application, id: str, call: dict[str, Any]):
    decide(app, "send_back_step", id, text="Add a title.")

    as_reader = Call(**{"caller": "local", "tool": "get_session", **call})
    invoke(app.database, app.registry["get_session"], {"session_id": id}, as_reader)

    assert len(list_waiting_texts(app, id)) == 1


def test_another_process_that_shows_a_session_leaves_its_notices(app: Application, id: str):
    decide(app, "send_back_step", id, text="Add a title.")
    save_owner(app, id, "elsewhere/1/1")

    get_session(app, id)

    assert len(list_waiting_texts(app, id)) == 1


def test_a_read_only_server_leaves_the_notices(root: Path, app: Application, id: str):
    decide(app, "send_back_step", id, text="Add a title.")
    other = open_app(root, read_only=True)

    get_session(other, id)

    assert len(list_waiting_texts(app, id)) == 1
    other.close()


def test_a_person_who_aborts_a_session_notifies_its_agent(app: Application, id: str):
    call = Call(PERSON, "abort_workflow")
    invoke(app.database, app.registry["abort_workflow"], {"session_id": id, "explanation": "Wrong job"}, call)

    [(type, text)] = list_waiting_texts(app, id)
    assert type == "ended"
    assert text == f'Job session {id} ("chain/main") was aborted: Wrong job. Stop work on it.'
