"""What a person does reaches the agents it concerns, in the answers of their tools."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from application import NOW, Clock, call_tool, make_app
from deepwork.edge.server.application import Application
from deepwork.edge.server.invocation import invoke
from deepwork.kernel.call import Call
from deepwork.kernel.events.log import RETENTION_MS
from deepwork.kernel.notices.store import MAX_NOTICES
from notices.make import ANNA, act, beat, claim, create_plan, list_types, register_agent, write_message
from statement_counter import count_statements
from tracking.make import create_blocker, create_task, create_workflow_and_phase, get_context


@pytest.fixture
def ada(app: Application) -> str:
    return register_agent(app)


@pytest.fixture
def held(app: Application, ada: str) -> tuple[str, str]:
    """A plan and its task that Ada holds."""
    plan, tasks = create_plan(app, "design", "build")
    claim(app, tasks["design"], ada)
    return plan, tasks["design"]


def count_waiting(app: Application) -> int:
    with app.database.reading() as tx:
        found: int = tx.fetch_value("SELECT count(*) FROM notices WHERE carried_at IS NULL")
        return found


def send_urgent(app: Application, sender: str, recipient: str, **given: Any) -> str:
    sent = {"message_type": "notification", "body": "Stop.", "priority": "urgent"}
    id: str = call_tool(app, "message_send", sender_id=sender, recipient_id=recipient, **sent, **given)["id"]
    return id


# What makes a notice, and for whom


def test_the_holder_of_a_task_is_notified_of_a_pause_and_of_its_end(
    app: Application, ada: str, held: tuple[str, str]
):
    bystander = register_agent(app, "Bob")
    act(app, "workflow_update_status", id=held[0], status="paused", reason="Wait for the contract.")
    act(app, "workflow_update_status", id=held[0], status="in_progress")

    paused, resumed = beat(app, ada)

    assert paused["id"].startswith("nt_")
    assert (paused["type"], paused["by"], paused["at"], paused["task_id"]) == ("paused", ANNA, NOW, held[1])
    assert 'Plan "Login" was paused: Wait for the contract.' in paused["text"]
    assert (resumed["type"], resumed["by"]) == ("resumed", ANNA)
    assert beat(app, bystander) == []


def test_the_holder_is_notified_when_a_person_ends_the_plan(
    app: Application, ada: str, held: tuple[str, str]
):
    act(app, "workflow_update_status", id=held[0], status="abandoned", reason="No budget.")

    [notice] = beat(app, ada)

    assert notice["type"] == "ended"
    assert notice["text"] == 'Plan "Login" was abandoned: No budget. Stop work on its tasks.'


def test_holders_are_notified_of_each_change_of_their_plan(app: Application, ada: str, held: tuple[str, str]):
    bystander = register_agent(app, "Bob")
    extra = act(app, "workflow_add_task", workflow_id=held[0], task={"name": "extra", "description": ""})
    act(app, "workflow_remove_task", workflow_id=held[0], task_id=extra["task_id"])
    act(app, "workflow_set_parallelism", id=held[0], max_parallel_tasks=4)
    tasks = [{"name": "ship", "description": ""}]
    act(app, "workflow_replan", workflow_id=held[0], reason="No PKCE.", tasks=tasks)

    notices = beat(app, ada)

    assert [(each["type"], each["by"]) for each in notices] == [("replanned", ANNA)] * 3
    assert [
        each["text"].removesuffix(" Your task stays; workflow_get shows the plan.") for each in notices
    ] == [
        "Plan \"Login\" was changed: task 'extra' was removed.",
        'Plan "Login" was changed: 4 in parallel, files warn.',
        'Plan "Login" was changed: 1 tasks replaced by 1: No PKCE.',
    ]
    assert beat(app, bystander) == []


def test_what_an_agent_changes_in_a_plan_is_no_notice(app: Application, ada: str, held: tuple[str, str]):
    call_tool(app, "workflow_set_parallelism", id=held[0], max_parallel_tasks=4)

    assert beat(app, ada) == []


def test_the_agent_that_completed_a_task_is_notified_if_a_person_opens_it_again(
    app: Application, ada: str, held: tuple[str, str]
):
    call_tool(app, "task_update_status", id=held[1], status="in_progress", agent_id=ada)
    call_tool(app, "task_update_status", id=held[1], status="completed", outcome="Done.", agent_id=ada)
    act(app, "task_update_status", id=held[1], status="pending", outcome="The tests are missing")

    [notice] = beat(app, ada)

    assert (notice["type"], notice["task_id"], notice["by"]) == ("retry", held[1], ANNA)
    assert "The tests are missing." in notice["text"]


def test_the_former_holder_is_notified_of_a_release(app: Application, ada: str, held: tuple[str, str]):
    act(app, "task_release", task_id=held[1], agent_id=ada, reason="Bob is faster")

    [notice] = beat(app, ada)

    assert (notice["type"], notice["task_id"]) == ("released", held[1])
    assert notice["text"].startswith('Your claim on task "design" was released: Bob is faster. Stop work')


@pytest.mark.parametrize("status", ["skipped", "failed", "completed"])
def test_the_holder_is_notified_of_a_status_that_a_person_set(
    app: Application, ada: str, held: tuple[str, str], status: str
):
    texts = {"outcome": "As it is."} if status == "completed" else {"error": "Wrong way."}
    act(app, "task_update_status", id=held[1], status=status, **texts)

    [notice] = beat(app, ada)

    assert notice["type"] == "status"
    assert notice["text"].startswith(f'Task "design" was set to {status}: ')


def test_a_retry_with_a_hint_reaches_the_last_holder_and_the_next(
    app: Application, ada: str, held: tuple[str, str]
):
    call_tool(app, "task_update_status", id=held[1], status="failed", error="It broke.", agent_id=ada)
    act(app, "task_update_status", id=held[1], status="pending", outcome="Use the mirror")

    [notice] = beat(app, ada)

    assert notice["type"] == "retry"
    assert "is to be tried again: Use the mirror." in notice["text"]
    [hint] = call_tool(app, "checkpoint_list", task_id=held[1])["checkpoints"]
    assert (hint["summary"], hint["detail"]) == ("Use the mirror", {"by": ANNA})


def test_the_holder_is_notified_of_a_new_plan_of_its_task(app: Application, ada: str, held: tuple[str, str]):
    call_tool(app, "task_update_status", id=held[1], status="in_progress", agent_id=ada)
    act(app, "task_replan", id=held[1], reason="Simpler", new_plan={"steps": []})

    [notice] = beat(app, ada)

    assert notice["type"] == "replanned"


def test_a_message_of_a_person_is_a_notice_of_any_priority(app: Application, ada: str):
    message = write_message(app, ada, priority="low", subject="Where")

    [notice] = beat(app, ada)

    assert (notice["type"], notice["about"]) == ("message", message)
    assert notice["text"].startswith(f"Message {message} from anna (ag_")
    assert notice["text"].endswith('), "Where": Use the staging server.')


def test_an_urgent_message_of_an_agent_is_a_notice_in_its_name(
    app: Application, ada: str, held: tuple[str, str]
):
    bob = register_agent(app, "Bob")
    message = send_urgent(app, bob, ada, task_id=held[1])

    [notice] = beat(app, ada)

    assert (notice["type"], notice["about"], notice["task_id"]) == ("message", message, held[1])
    assert notice["by"] == bob
    assert notice["text"] == f'Message {message} from "Bob" ({bob}): Stop.'
    assert beat(app, ada) == []


def test_each_agent_that_an_urgent_broadcast_reaches_gets_a_notice(app: Application, ada: str):
    bob, eve = register_agent(app, "Bob"), register_agent(app, "Eve")
    sent = {"message_type": "notification", "body": "Stop.", "priority": "urgent"}
    call_tool(app, "message_broadcast", sender_id=bob, **sent)

    assert [list_types(beat(app, agent)) for agent in (ada, eve, bob)] == [["message"], ["message"], []]


def test_a_message_that_has_expired_is_no_notice_any_more(app: Application, clock: Clock, ada: str):
    send_urgent(app, register_agent(app, "Bob"), ada, expires_at=NOW + 5000)
    write_message(app, ada, expires_at=NOW + 5000)
    clock.advance(seconds=5)

    assert beat(app, ada) == []


def test_the_answer_to_an_issue_of_a_planned_task_reaches_who_asked_and_who_works_on_it_now(
    app: Application, clock: Clock, ada: str, held: tuple[str, str]
):
    issue = create_blocker(app, held[1], "Which rate?")
    clock.advance(seconds=1)
    call_tool(app, "task_release", task_id=held[1], agent_id=ada)
    claim(app, held[1], bob := register_agent(app, "Bob"))
    act(app, "resolve_issue", issue_id=issue, note="7 percent")

    for agent in (ada, bob):
        [notice] = beat(app, agent)
        assert (notice["type"], notice["about"], notice["task_id"]) == ("answer", issue, held[1])
        assert notice["text"] == 'Answer to your question "Which rate?": 7 percent'


def test_an_approval_of_a_planned_task_reaches_its_holder(app: Application, ada: str, held: tuple[str, str]):
    given = {"message": "Looks right.", "metadata": {"verdict": "approved"}}
    act(app, "log_milestone", task_id=held[1], **given)
    act(app, "log_milestone", task_id=held[1], message="Mind the tests.")

    approved, note = beat(app, ada)

    assert (approved["type"], approved["text"]) == ("approved", 'Task "design" was approved: Looks right.')
    assert (note["type"], note["text"]) == ("note", 'On task "design": Mind the tests.')


def test_what_agents_do_is_no_notice(app: Application, ada: str, held: tuple[str, str]):
    bob = register_agent(app, "Bob")
    issue = create_blocker(app, held[1])
    call_tool(app, "resolve_issue", issue_id=issue, note="Found it.")
    call_tool(app, "log_milestone", task_id=held[1], message="Half.")
    call_tool(app, "message_send", sender_id=bob, recipient_id=ada, message_type="query", body="?")
    call_tool(app, "task_release", task_id=held[1], agent_id=ada)
    call_tool(app, "workflow_update_status", id=held[0], status="paused")

    assert beat(app, ada) == beat(app, bob) == []
    assert count_waiting(app) == 0


# Tracked work


def test_an_answer_is_in_the_context_of_tracked_work_and_stays_there(app: Application, clock: Clock):
    where = create_workflow_and_phase(app)
    task = create_task(app, where)
    issue = create_blocker(app, task, "Which rate?")
    clock.advance(seconds=60)
    act(app, "resolve_issue", issue_id=issue, note="7 percent")
    clock.advance(seconds=60)

    first, second = get_context(app, where[0], "tasks"), get_context(app, where[0], "blockers")

    [answer] = first["answers"]
    assert answer == {
        "issue_id": issue, "task_id": task, "question": "Which rate?", "answer": "7 percent", "by": ANNA,
        "at": "2027-01-15T08:01:00.000Z",
    }  # fmt: skip
    [notice] = first["notices"]
    assert (notice["type"], notice["by"], notice["at"]) == ("answer", ANNA, answer["at"])
    assert notice["about"] == issue
    assert second["answers"] == first["answers"]
    assert second["answers_count"] == 1
    assert "notices" not in second, "delivered once"
    assert second["blockers"] == []


def test_a_context_shows_the_newest_answers_and_counts_all(app: Application, clock: Clock):
    where = create_workflow_and_phase(app)
    task = create_task(app, where)
    for number in range(22):
        clock.advance(seconds=1)
        act(app, "resolve_issue", issue_id=create_blocker(app, task, f"Question {number}?"), note="Yes.")

    context = get_context(app, where[0], "phase_summary")

    assert [answer["question"] for answer in context["answers"]][:2] == ["Question 21?", "Question 20?"]
    assert (len(context["answers"]), context["answers_count"]) == (20, 22)
    recent = get_context(app, where[0], "tasks", filter={"since": "2027-01-15T08:00:21.000Z"})
    assert recent["answers_count"] == 2
    assert "answers" not in get_context(app, where[0], "tasks", filter={"agent": "Nobody"})


def test_an_approval_and_an_abandoned_task_reach_the_work_on_a_tracked_workflow(app: Application):
    where = create_workflow_and_phase(app)
    first, second = create_task(app, where, "first"), create_task(app, where, "second")
    act(app, "log_milestone", task_id=first, message="Fine.", metadata={"verdict": "approved"})
    act(app, "abandon_task", task_id=second, reason="Not needed")

    approved, ended = get_context(app, where[0], "tasks")["notices"]

    assert (approved["type"], approved["task_id"]) == ("approved", first)
    assert (ended["type"], ended["text"]) == (
        "ended",
        'Task "second" was abandoned: Not needed. Stop work on it.',
    )


def test_the_resource_shows_answers_and_notices_and_leaves_them_for_the_agent(app: Application):
    from deepwork.edge.server.resources import ResourceReader

    where = create_workflow_and_phase(app)
    act(app, "resolve_issue", issue_id=create_blocker(app, create_task(app, where)), note="7 percent")

    read = ResourceReader(app, app.registry).read_context(where[0], Call())

    assert '"answers":[{' in read
    assert '"notices":[{' in read
    assert list_types(get_context(app, where[0], "tasks")["notices"]) == ["answer"]


# Which answers carry them, and how often


def read_context(app: Application, agent: str, task: str) -> Any:
    return call_tool(app, "task_load_context", task_id=task)


def read_inbox(app: Application, agent: str, task: str) -> Any:
    return call_tool(app, "message_list", agent_id=agent)


def read_state(app: Application, agent: str, task: str) -> Any:
    workflow = call_tool(app, "task_get", id=task)["workflow_id"]
    return get_context(app, workflow, "tasks")


def send_heartbeat(app: Application, agent: str, task: str) -> Any:
    return call_tool(app, "agent_heartbeat", agent_id=agent)


def add_checkpoint(app: Application, agent: str, task: str) -> Any:
    return call_tool(app, "checkpoint_add", task_id=task, type="progress", summary="Half.", agent_id=agent)


def complete(app: Application, agent: str, task: str) -> Any:
    return call_tool(app, "task_update_status", id=task, status="completed", outcome="Done.", agent_id=agent)


def fail(app: Application, agent: str, task: str) -> Any:
    return call_tool(app, "task_update_status", id=task, status="failed", error="Broken.", agent_id=agent)


CARRIERS = [read_context, read_inbox, read_state, send_heartbeat, add_checkpoint, complete, fail]


@pytest.mark.parametrize("carry", CARRIERS)
def test_the_next_answer_carries_a_notice_once(
    app: Application, ada: str, held: tuple[str, str], carry: Callable[..., Any]
):
    act(app, "workflow_update_status", id=held[0], status="paused")

    answer = carry(app, ada, held[1])

    assert list_types(answer["notices"]) == ["paused"]
    assert beat(app, ada) == []
    assert count_waiting(app) == 0


@pytest.mark.parametrize("read", [read_context, read_inbox, read_state])
def test_a_read_without_notices_writes_nothing(
    app: Application, ada: str, held: tuple[str, str], read: Callable[..., Any]
):
    with count_statements() as counter:
        answer = read(app, ada, held[1])

    assert "notices" not in answer
    assert not any(sql.lstrip().startswith(("UPDATE", "INSERT", "DELETE")) for sql in counter.statements)


def test_a_notice_that_the_answer_of_a_read_carried_is_not_delivered_by_that_read(
    app: Application, clock: Clock, ada: str
):
    write_message(app, ada)
    clock.advance(seconds=40)  # the read is also a sign of life
    call_tool(app, "message_list", agent_id=ada, status="read")

    assert list_undelivered(app, ada) == ["message"]
    clock.advance(seconds=1)
    beat(app, ada)
    assert list_undelivered(app, ada) == []


def list_undelivered(app: Application, agent: str) -> list[str]:
    from deepwork.kernel.notices.store import NoticeStore

    with app.database.reading() as tx:
        return [notice.type.value for notice in NoticeStore(tx).list_undelivered([agent], 9)]


def test_a_repeated_call_returns_the_notices_of_the_first(app: Application, ada: str):
    write_message(app, ada)

    answers = [call_tool(app, "agent_heartbeat", "k1", agent_id=ada) for _ in range(2)]

    assert answers[0] == answers[1]
    assert list_types(answers[1]["notices"]) == ["message"]


@pytest.mark.differs
def test_of_answers_at_the_same_time_one_carries_a_notice(app: Application, ada: str):
    write_message(app, ada)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: beat(app, ada), range(8)))

    assert sum(map(len, answers)) == 1


def test_many_notices_come_with_several_answers(app: Application, ada: str, held: tuple[str, str]):
    for number in range(MAX_NOTICES + 3):
        act(app, "log_milestone", task_id=held[1], message=f"Note {number}")

    first, second = beat(app, ada), beat(app, ada)

    texts = [notice["text"] for notice in (*first, *second)]
    assert texts == [f'On task "design": Note {number}' for number in range(MAX_NOTICES + 3)]
    assert len(first) == MAX_NOTICES


def test_the_context_of_a_task_stays_within_its_budget(app: Application, ada: str, held: tuple[str, str]):
    for number in range(9):
        act(app, "log_milestone", task_id=held[1], message=f"{number} " + "word " * 80)

    small = call_tool(app, "task_load_context", task_id=held[1], max_tokens=2000)
    tiny = call_tool(app, "task_load_context", task_id=held[1], max_tokens=200)

    assert small["token_estimate"] <= 2000
    assert 1 <= len(small["notices"]) < 9
    assert "notices" not in tiny
    assert len(small["notices"]) + len(beat(app, ada)) == 9, "what did not fit comes later"


# A message is shown once: by itself, or as a notice


def test_a_listed_message_is_not_listed_as_a_notice_too(app: Application, ada: str):
    message = write_message(app, ada)

    answer = call_tool(app, "message_list", agent_id=ada)

    assert [each["id"] for each in answer["messages"]] == [message]
    assert "notices" not in answer
    assert beat(app, ada) == []


@pytest.mark.parametrize("tool", ["message_get", "message_mark_read", "message_archive"])
def test_a_message_that_was_read_is_no_notice_any_more(app: Application, ada: str, tool: str):
    message = write_message(app, ada)

    call_tool(app, tool, **({"id": message} if tool == "message_get" else {"message_ids": [message]}))

    assert beat(app, ada) == []


# Who reads


def test_a_read_only_server_shows_notices_and_leaves_them(
    app: Application, tmp_path: Path, location: str, clock: Clock, ada: str, held: tuple[str, str]
):
    act(app, "workflow_update_status", id=held[0], status="paused")
    reader = make_app(tmp_path, location, clock, read_only=True)

    for read in (read_inbox, read_context):
        assert list_types(read(reader, ada, held[1])["notices"]) == ["paused"]
    reader.close()

    assert list_types(beat(app, ada)) == ["paused"]


@pytest.mark.parametrize(
    "call",
    [
        Call(carries_notices=False),
        Call(caller=ANNA),
        Call(caller="other", account="other"),
        Call(caller="viewer", account="viewer", scope="read"),
    ],
    ids=["command", "person", "another agent", "viewer"],
)
def test_others_who_read_an_inbox_leave_its_notices(
    app: Application, ada: str, held: tuple[str, str], call: Call
):
    act(app, "workflow_update_status", id=held[0], status="paused")

    answer = invoke(app.database, app.registry["message_list"], {"agent_id": ada}, call)

    assert list_types(answer["notices"]) == ["paused"]
    assert list_types(beat(app, ada)) == ["paused"]


@pytest.mark.parametrize("write", [send_heartbeat, add_checkpoint, complete])
def test_a_process_that_registered_no_agent_shows_notices_until_the_agent_writes(
    app: Application,
    tmp_path: Path,
    location: str,
    clock: Clock,
    ada: str,
    held: tuple[str, str],
    write: Callable[..., Any],
):
    act(app, "workflow_update_status", id=held[0], status="paused")
    restarted = make_app(tmp_path, location, clock)

    shown = [read(restarted, ada, held[1])["notices"] for read in (read_context, read_inbox, read_inbox)]
    carried = write(restarted, ada, held[1])["notices"]
    again = read_inbox(restarted, ada, held[1])
    restarted.close()

    assert list(map(list_types, [*shown, carried])) == [["paused"]] * 4, "it may be another agent's process"
    assert "notices" not in again


def test_a_person_who_acts_in_an_agents_name_does_not_take_its_notices(
    app: Application, ada: str, held: tuple[str, str]
):
    answer = act(app, "task_update_status", id=held[1], status="completed", outcome="Done.", agent_id=ada)

    assert "notices" not in answer
    assert list_types(beat(app, ada)) == ["status"]


# Retention


def test_old_notices_are_deleted(app: Application, clock: Clock, ada: str):
    write_message(app, ada, "Old")
    clock.advance(seconds=RETENTION_MS / 1000 + 1)
    write_message(app, ada, "New")

    [notice] = beat(app, ada)

    assert notice["text"].endswith("New")
