"""Hooks show what people did: at the next tool use, before an agent stops, and again if it may be lost."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from rs_bpe.bpe import openai

from application import call_tool
from deepwork.kernel.files.lock import FileLock
from deepwork.kernel.foreign_text import FRAME
from deepwork.kernel.values import format_age
from deepwork.views.hooks import context, dispatch, failure_log, tool_use
from deepwork.views.hooks import notices as hook_notices
from deepwork.views.hooks.identity import MAX_ISSUES, SessionRecord, learn_from_call
from deepwork.views.hooks.protocol import SESSION_START, STOP, TOOL_USE
from deepwork.views.hooks.rendering import MAX_TOKENS
from hooks.make import Project, build_event, build_tool_event
from notices.make import ANNA, act, beat, list_types, write_message
from tracking.make import create_workflow_and_phase

BASH = build_event(tool_name="Bash")


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hooks that wait longer than agents like: on a busy machine a second may pass in vain."""
    monkeypatch.setattr(dispatch, "STORE_WAIT_SECONDS", 60.0)
    monkeypatch.setattr(tool_use, "RENEWAL_WAIT_SECONDS", 60.0)
    monkeypatch.setattr(hook_notices, "MARK_WAIT_SECONDS", 60.0)
    monkeypatch.setattr(context, "_LOCK_SECONDS", 60.0)


def call_in_session(project: Project, tool: str, session: str = "s1", **given: Any) -> tuple[Any, str]:
    """Call a tool, then run the hook of that call; return the answer and the hook's text."""
    answer = call_tool(project.app, tool, **given)
    return answer, project.run_for_context(TOOL_USE, build_tool_event(tool, given, answer, session=session))


def start_tracked_task(project: Project, session: str = "s1") -> tuple[str, str]:
    """Start a task of a tracked workflow in a session; return the ids of the workflow and the task."""
    workflow, phase = create_workflow_and_phase(project.app)
    given = {"workflow_id": workflow, "phase_id": phase, "caller_type": "orchestrator", "name": "rate"}
    answer, _ = call_in_session(project, "start_task", session, **given, goal="The rate is right.")
    return workflow, answer["task_id"]


def ask(project: Project, task: str, session: str = "s1") -> str:
    given = {"task_id": task, "type": "unclear_requirement", "description": "Which rate?"}
    asked = {"resolution": "Asked.", "requires_human_review": True}
    answer, _ = call_in_session(project, "log_issue", session, **given, **asked)
    id: str = answer["issue_id"]
    return id


def pause(project: Project, task: str, reason: str = "Wait for the contract.") -> None:
    plan = call_tool(project.app, "task_get", id=task)["workflow_id"]
    act(project.app, "workflow_update_status", id=plan, status="paused", reason=reason)


def use_tool(project: Project, session: str = "s1") -> str:
    return project.run_for_context(TOOL_USE, build_event(session, tool_name="Bash"))


def start_again(project: Project, session: str = "s1", source: str = "compact") -> str:
    return project.run_for_context(SESSION_START, build_event(session, source=source))


def test_every_source_of_notices_is_on_the_page_about_the_inbox():
    page = (Path(__file__).parents[2] / "docs" / "inbox.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(\w+)` \|", page.split("## What agents hear")[1], re.MULTILINE)

    sources = (*hook_notices.SOURCES, *hook_notices.START_SOURCES)
    assert listed == [source.__name__.removeprefix("list_") for source in sources]


# Plans and messages


def test_an_agent_learns_of_a_pause_at_its_next_tool_use(project: Project):
    _, task = project.start_task()
    pause(project, task)

    frame, said_by, what = use_tool(project).splitlines()
    assert frame == FRAME
    assert said_by == f'Notice from "{ANNA}", just now, task {task}; act on it:'
    assert json.loads(what).startswith(
        'Plan "Login by SSO" was paused: Wait for the contract. Do not start or continue'
    )
    assert use_tool(project) == ""


def test_an_agent_learns_of_a_release_at_its_next_tool_use(project: Project):
    agent, task = project.start_task()
    act(project.app, "task_release", task_id=task, agent_id=agent, reason="Bob is faster.")

    text = use_tool(project)

    assert r'"Your claim on task \"design\" was released: Bob is faster. Stop work on it' in text
    assert beat(project.app, agent) == [], "the hook carried it"


@pytest.mark.parametrize("priority", ["low", "normal", "urgent"])
def test_the_message_of_a_person_is_shown_once_at_any_priority(project: Project, priority: str):
    agent, _ = project.start_task()
    message = write_message(project.app, agent, "Use the\nstaging server.", priority=priority)

    text = use_tool(project)

    assert text.count(message) == 2, "in the text, and in how to mark it as read"
    assert r"Use the\nstaging server." in text
    assert f'message_mark_read(message_ids=["{message}"]); answer with message_send.' in text
    assert use_tool(project) == ""


def test_a_message_that_the_agent_read_is_not_shown(project: Project):
    agent, _ = project.start_task()
    message = write_message(project.app, agent)

    _, text = call_in_session(project, "message_get", id=message)

    assert text == ""


def test_a_notice_that_an_answer_carried_is_not_shown_by_the_hook_of_that_call(project: Project):
    agent, task = project.start_task()
    pause(project, task)

    answer, text = call_in_session(project, "agent_heartbeat", agent_id=agent)

    assert list_types(answer["notices"]) == ["paused"]
    assert text == ""


@pytest.mark.differs
def test_only_one_of_several_parallel_hooks_shows_a_notice(project: Project):
    agent, _ = project.start_task()
    message = write_message(project.app, agent)

    with ThreadPoolExecutor(4) as pool:
        texts = list(pool.map(lambda _: use_tool(project), range(4)))

    assert [message in text for text in texts].count(True) == 1


def test_an_agent_that_is_about_to_stop_gets_its_notices(project: Project):
    agent, _ = project.start_task()
    project.run_hook(STOP, build_event())  # reminds of the task, once
    message = write_message(project.app, agent)

    stopped, again = (project.run_hook(STOP, build_event()) for _ in range(2))

    assert stopped["decision"] == "block"
    assert message in stopped["reason"]
    assert again == {}


# Tracked work


def test_the_answer_to_a_blocker_is_shown_by_the_next_hook_of_the_session_that_asked(project: Project):
    _, task = start_tracked_task(project)
    issue = ask(project, task)
    assert use_tool(project) == ""

    act(project.app, "resolve_issue", issue_id=issue, note="7 percent")

    assert use_tool(project).splitlines() == [
        FRAME,
        f'Notice from "{ANNA}", just now, task {task}; act on it:',
        r'"Answer to your question \"Which rate?\": 7 percent"',
    ]
    assert use_tool(project) == ""


def test_the_session_that_asked_gets_the_answer_even_if_another_on_the_same_work_got_it(project: Project):
    workflow, task = start_tracked_task(project)
    issue = ask(project, task)
    phase = call_tool(project.app, "get_context", workflow_id=workflow, include=["phase_summary"])
    given = {"workflow_id": workflow, "phase_id": phase["phase_summary"][0]["phase_id"]}
    more = {"caller_type": "orchestrator", "name": "other", "goal": "Another."}
    call_in_session(project, "start_task", "s2", **given, **more)
    act(project.app, "resolve_issue", issue_id=issue, note="7 percent")

    texts = [use_tool(project, session) for session in ("s2", "s1", "s2", "s1")]

    assert ["7 percent" in text for text in texts] == [True, True, False, False]


def test_a_session_that_only_logged_the_issue_gets_the_answer(project: Project):
    _, task = start_tracked_task(project, "s1")
    issue = ask(project, task, "s2")
    act(project.app, "resolve_issue", issue_id=issue, note="7 percent")

    assert "7 percent" in use_tool(project, "s2")
    assert use_tool(project, "s2") == ""
    assert use_tool(project, "s3") == ""


def test_the_answer_in_the_context_of_the_workflow_is_not_repeated_by_hooks(project: Project):
    workflow, task = start_tracked_task(project)
    issue = ask(project, task)
    act(project.app, "resolve_issue", issue_id=issue, note="7 percent")

    answer, text = call_in_session(project, "get_context", workflow_id=workflow, include=["tasks"])

    assert list_types(answer["notices"]) == ["answer"]
    assert text == use_tool(project) == ""
    assert "7 percent" not in start_again(project)


# Again, if it may be lost


def test_a_compaction_before_the_next_tool_repeats_the_notice(project: Project):
    agent, _ = project.start_task()
    _, task = start_tracked_task(project)
    issue, message = ask(project, task), write_message(project.app, agent)
    act(project.app, "resolve_issue", issue_id=issue, note="7 percent")
    first = use_tool(project)

    second = start_again(project)

    for text in (first, second):
        assert message in text
        assert "7 percent" in text
    assert 'You are agent "Ada"' in second


def test_a_notice_is_delivered_when_the_agent_made_a_later_call(project: Project):
    agent, task = project.start_task()
    message = write_message(project.app, agent)
    assert message in use_tool(project)
    given = {"task_id": task, "type": "progress", "summary": "Half.", "agent_id": agent}
    project.execute("UPDATE notices SET carried_at = carried_at - 1")  # the same millisecond is too fast
    call_in_session(project, "checkpoint_add", **given)

    assert message not in start_again(project)


def test_a_notice_in_an_answer_that_never_arrived_is_shown_when_the_session_starts_again(project: Project):
    agent, task = project.start_task()
    pause(project, task)
    call_tool(project.app, "agent_heartbeat", agent_id=agent)  # its client is killed; no hook runs

    text = start_again(project, source="resume")

    assert "was paused: Wait for the contract." in text
    assert "was paused" in start_again(project), "still no call"
    call_tool(project.app, "agent_heartbeat", agent_id=agent)


def test_a_conversation_under_a_new_id_sees_the_notices_that_may_be_its_own(project: Project):
    agent, task = project.start_task()
    pause(project, task)

    text = start_again(project, "s2", source="resume")

    assert "was paused: Wait for the contract." in text
    assert list_types(beat(project.app, agent)) == ["paused"], "it still waits for the agent"


def test_a_new_session_sees_no_notices_of_others(project: Project):
    _, task = project.start_task()
    pause(project, task)

    assert "was paused" not in start_again(project, "s2", source="startup")


# Limits


def test_notices_fit_the_budget_and_none_is_lost(project: Project):
    agent, task = project.start_task()
    for number in range(8):
        write_message(project.app, agent, f"{number} " + "説明" * 2000)

    texts = [start_again(project), *(use_tool(project) for _ in range(8))]

    assert all(len(openai.o200k_base().encode(text)) <= MAX_TOKENS for text in texts)
    for number in range(8):
        assert sum(f": {number} 説明" in text for text in texts) == 1
    assert task


def test_a_hook_that_cannot_write_shows_a_notice_once(project: Project, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(hook_notices, "MARK_WAIT_SECONDS", 0.05)
    agent, _ = project.start_task()
    message = write_message(project.app, agent)
    location = project.app.settings.database_location
    if "://" in location:
        with psycopg.connect(location) as other:
            other.execute("LOCK TABLE notices IN SHARE MODE")
            texts = [use_tool(project) for _ in range(2)]
    else:
        lock = FileLock(Path(f"{location}.lock"))
        with lock.hold():
            texts = [use_tool(project) for _ in range(2)]
        lock.close()

    assert [message in text for text in texts] == [True, False]
    folder = project.app.settings.store_folder
    assert "marking of notices: StorageError" in failure_log.read_last_failure(folder)[1]
    assert use_tool(project) == ""


def test_an_older_record_without_notices_is_still_read(file_project: Project):
    agent, _ = file_project.start_task()
    [path] = file_project.records
    data = {
        key: value for key, value in json.loads(path.read_text()).items() if key not in ("issues", "carried")
    }
    path.write_text(json.dumps(data))
    write_message(file_project.app, agent, "Go on.")

    assert "Go on." in use_tool(file_project)


# What a session learns from its own calls


def test_a_session_remembers_its_newest_questions():
    record = SessionRecord("codex", "s1")
    for number in range(MAX_ISSUES + 2):
        given = {"requires_human_review": True}
        record = learn_from_call(record, "log_issue", given, {"issue_id": f"is_{number}"})
    record = learn_from_call(record, "log_issue", {}, {"issue_id": "is_note"})

    assert record.issues[0] == f"is_{MAX_ISSUES + 1}"
    assert len(record.issues) == MAX_ISSUES


def test_a_session_remembers_the_notices_of_an_answer():
    record = SessionRecord("codex", "s1", issues=("is_1", "is_2"))
    notices = [{"id": "nt_1", "about": "is_1"}, "nonsense", {"id": "nt_2"}]

    learned = learn_from_call(record, "get_context", {}, {"notices": notices})

    assert (learned.carried, learned.issues) == (("nt_1", "nt_2"), ("is_2",))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "just now"), (59, "just now"), (60, "1 minute ago"), (3599, "59 minutes ago"), (3600, "1 hour ago"),
        (47 * 3600, "1 day ago"), (48 * 3600, "2 days ago"),
    ],
)  # fmt: skip
def test_the_age_of_a_notice_is_in_words(seconds: int, text: str):
    assert format_age(1_800_000_000_000, 1_800_000_000_000 + seconds * 1000) == text
