"""Lists over all runs: what needs a person, blockers, decisions, agents, search."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from application import Clock, call_tool
from approvals.make import ask
from dashboard.make import World, read, read_error, read_pages
from deepwork.edge.server.application import Application
from deepwork.gates.approvals.models import ApprovalKind, ApprovalRequest
from jobs.runs import call_job_tool as ask_job
from tracking import make as track

OLD_COUNTS = ("running", "blocked", "blockers", "completed", "failed", "total")


def needs(page: TestClient, kind: str) -> list[Any]:
    return [need for need in read(page, "/home")["needs_you"] if need["kind"] == kind]


# Home


def test_home_lists_items_that_need_a_person_and_running_and_recent_runs(world: World, page: TestClient):
    home = read(page, "/home")

    assert [need["kind"] for need in home["needs_you"]] == [
        "blocker", "gate", "failed_task", "waiting_plan", "manual_review", "failed_task",
    ]  # fmt: skip
    assert home["needs_you_total"] == 6
    assert {run["name"] for run in home["running"]} == {"Payments", "Release", "Later", "letter/main"}
    assert [run["name"] for run in home["recent"]] == ["Docs"]
    counts = home["counts"]
    assert {name: counts[name] for name in OLD_COUNTS} == {
        "running": 1, "blocked": 1, "blockers": 1, "completed": 1, "failed": 0, "total": 5,
    }  # fmt: skip
    assert {state: count for state, count in counts["states"].items() if count} == {
        "running": 1, "needs_you": 3,
    }  # fmt: skip
    assert counts["open"] == len(home["running"])
    assert home["last_seq"] > 0


def test_each_item_that_needs_a_person_has_its_run_and_actions(world: World, page: TestClient):
    [blocker] = needs(page, "blocker")
    assert blocker["run"] == {"id": world.track, "kind": "track", "name": "Payments"}
    assert blocker["task"] == {"id": world.tasks["part"], "name": "write the ledger"}
    assert (blocker["title"], blocker["agent_name"]) == ("Which currency comes first?", "Grace")
    assert blocker["actions"][0]["arguments"] == {"issue_id": world.blocker}
    assert [ask["name"] for ask in blocker["actions"][0]["asks"]] == ["note"]
    [review] = needs(page, "manual_review")
    assert (review["task"]["name"], review["detail"]) == ("round", "Is it legal?")
    tracked, planned = sorted(needs(page, "failed_task"), key=lambda need: need["run"]["kind"], reverse=True)
    assert (tracked["title"], tracked["detail"]) == ("migrate failed", "The table is locked.")
    assert [action["label"] for action in planned["actions"]] == [
        "Try again",
        "Try again with a hint",
        "Skip",
    ]
    [paused] = needs(page, "waiting_plan")
    assert (paused["detail"], paused["actions"][0]["label"]) == ("Wait for the budget.", "Resume")


def test_silent_tasks_and_lost_claims_need_a_person(world: World, page: TestClient, clock: Clock):
    clock.advance(seconds=200)
    [lost] = needs(page, "lost_claim")
    assert (lost["agent_name"], lost["task"]["name"]) == ("Ada", "backend")
    assert lost["actions"][0]["arguments"] == {"task_id": world.planned["backend"], "agent_id": world.agent}
    assert needs(page, "stale_task") == []

    clock.advance(seconds=31 * 60)

    assert {need["task"]["name"] for need in needs(page, "stale_task")} == {"build", "write the ledger"}


def test_a_retried_task_needs_no_person(world: World, app: Application, page: TestClient, clock: Clock):
    clock.advance(seconds=1)
    phase = track.create_phase(app, world.track, 3)

    track.create_task(app, (world.track, phase), "migrate")

    assert [need["task"]["name"] for need in needs(page, "failed_task")] == ["frontend"]


def test_settled_items_need_no_person(world: World, app: Application, page: TestClient, clock: Clock):
    call_tool(app, "resolve_issue", issue_id=world.blocker, note="Euro.")
    call_tool(app, "task_update_status", id=world.planned["frontend"], status="skipped")
    call_tool(app, "workflow_update_status", id=world.paused, status="abandoned", reason="No budget.")
    ask_job(app, "abort_workflow", explanation="No time.", session_id=world.job)
    call_tool(app, "abandon_task", task_id=world.tasks["part"], reason="x")
    call_tool(app, "abandon_task", task_id=world.tasks["build"], reason="x")
    call_tool(app, "complete_workflow", workflow_id=world.track, status="failed", summary="No.")

    assert [need["kind"] for need in read(page, "/home")["needs_you"]] == ["manual_review"]
    counts = read(page, "/home")["counts"]
    assert {name: counts[name] for name in OLD_COUNTS} == {
        "running": 1, "blocked": 0, "blockers": 0, "completed": 1, "failed": 3, "total": 5,
    }  # fmt: skip
    clock.advance(seconds=8 * 24 * 3600)
    assert needs(page, "manual_review") == []


def test_items_beyond_the_page_that_need_a_person_are_counted(app: Application, page: TestClient):
    id = track.create_task(app, track.create_workflow_and_phase(app))
    for number in range(103):
        track.create_blocker(app, id, f"Which {number}?")

    home = read(page, "/home")

    assert (len(home["needs_you"]), home["needs_you_total"]) == (100, 103)


def test_an_empty_store_has_an_empty_home(page: TestClient):
    home = read(page, "/home")

    assert (home["needs_you"], home["running"], home["recent"]) == ([], [], [])
    counts = home["counts"]
    assert {name: counts[name] for name in OLD_COUNTS} == dict.fromkeys(OLD_COUNTS, 0)
    assert not any({**counts["states"], **counts["tasks"]}.values())


def test_home_counts_every_open_blocker(world: World, app: Application, page: TestClient):
    track.create_blocker(app, world.tasks["build"], "And which comes second?")
    track.create_blocker(app, f"{world.job}/polish", "To whom?")

    counts = read(page, "/home")["counts"]

    assert (counts["blocked"], counts["blockers"]) == (1, 3)
    assert read(page, "/blockers")["total"] == 3


# Blockers and decisions


def test_blockers_are_open_or_resolved(world: World, app: Application, page: TestClient):
    call_tool(app, "log_issue", task_id=world.tasks["build"], type="other", description="x", resolution="y")
    assert [each["id"] for each in read(page, "/blockers")["blockers"]] == [world.blocker]
    assert read(page, "/blockers", type="bug_encountered")["blockers"] == []
    assert read(page, "/blockers", agent="Grace", type="unclear_requirement")["total"] == 1
    assert read(page, "/blockers", agent="Ada")["total"] == 0

    call_tool(app, "resolve_issue", issue_id=world.blocker, note="Euro first.", caller="human:bob")

    assert read(page, "/blockers")["blockers"] == []
    [resolved] = read(page, "/blockers", state="resolved")["blockers"]
    assert (resolved["resolution_note"], resolved["resolved_by"]) == ("Euro first.", "human:bob")
    assert (resolved["run"]["name"], resolved["actions"]) == ("Payments", [])
    assert read(page, "/blockers", state="resolved", run=world.track)["total"] == 1
    assert read(page, "/blockers", state="resolved", run=world.done_track)["total"] == 0
    assert read(page, "/blockers", state="all")["total"] == 1
    assert read(page, f"/runs/{world.track}/issues")["total"] == 2


def test_decisions_are_found_by_their_words(world: World, page: TestClient):
    [decision] = read(page, "/decisions", q="CENTS money")["decisions"]

    assert (decision["id"], decision["chosen"]) == (world.decision, "Decimal")
    assert decision["options_considered"] == ["float", "Decimal"]
    assert decision["run"] == {"id": world.track, "kind": "track", "name": "Payments"}
    assert read(page, "/decisions", q="money nowhere")["decisions"] == []
    assert read(page, "/decisions", category="library_choice")["total"] == 1
    assert read(page, "/decisions", category="workaround")["total"] == 0
    assert read(page, "/decisions", q="100%_")["total"] == 0
    assert read(page, f"/runs/{world.track}/decisions")["decisions"] == [decision]


def test_pages_of_notes_stay_stable_while_new_ones_arrive(app: Application, page: TestClient, clock: Clock):
    id = track.create_task(app, track.create_workflow_and_phase(app))
    for number in range(5):
        track.create_blocker(app, id, f"Which {number}?")
        clock.advance(seconds=number % 2)
    first = read(page, "/blockers", limit=2)
    track.create_blocker(app, id, "And this?")

    rest = read_pages(page, "/blockers", "blockers", limit=2)

    assert [len(part) for part in rest] == [2, 2, 2]
    second = read(page, "/blockers", limit=10, cursor=first["cursor"])["blockers"]
    seen = [each["id"] for each in first["blockers"] + second]
    assert len(set(seen)) == len(seen) == 5
    newest_first, oldest_first = (
        [
            each["id"]
            for part in read_pages(page, "/blockers", "blockers", limit=2, order=order)
            for each in part
        ]
        for order in ("desc", "asc")
    )
    assert newest_first == oldest_first[::-1]
    assert len(oldest_first) == 6


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/blockers", {"state": "odd"}), ("/blockers", {"order": "odd"}), ("/blockers", {"type": "odd"}), ("/decisions", {"category": "odd"}),
        ("/decisions", {"cursor": "x"}), ("/blockers", {"cursor": "WyJhIiwiYiJd"}), ("/search", {}),
        ("/search", {"q": " "}), ("/agents", {"status": "odd"}), ("/messages", {}),
    ],
)  # fmt: skip
def test_invalid_queries_are_refused(page: TestClient, path: str, query: dict[str, str]):
    assert read_error(page, path, **query) == (400, "INVALID_INPUT")


# Agents


def test_agents_are_listed_with_their_tasks_and_results(world: World, page: TestClient, clock: Clock):
    answer = read(page, "/agents")

    [ada] = answer["agents"]
    assert (ada["id"], ada["status"], ada["unread"]) == (world.agent, "busy", 0)
    assert (ada["tasks_done"], ada["tasks_failed"]) == (1, 1)
    [held] = ada["holds"]
    assert (held["name"], held["run"]["name"], held["files"]) == ("backend", "Release", ["api.py"])
    assert read(page, f"/agents/{world.agent}") == ada
    tracked = {agent["name"]: agent for agent in answer["tracked"]}
    assert {held["name"] for held in tracked["Grace"]["holds"]} == {"build", "write the ledger"}
    assert (tracked["Ada"]["tasks"], tracked["Ada"]["tasks_failed"], tracked["Ada"]["tokens"]) == (3, 1, 1000)
    clock.advance(seconds=200)
    [silent] = read(page, "/agents")["agents"]
    assert (silent["status"], silent["holds"]) == ("offline", [])


def test_an_inbox_is_paginated_newest_first(app: Application, page: TestClient):
    ada, bob = (call_tool(app, "agent_register", name=name, runtime="codex")["id"] for name in ("Ada", "Bob"))
    for number in range(5):
        call_tool(
            app, "message_send", sender_id=bob, recipient_id=ada, message_type="query", body=f"no. {number}"
        )  # fmt: skip

    pages = read_pages(page, f"/agents/{ada}/messages", "messages", limit=2)

    assert [[message["body"] for message in part] for part in pages] == [
        ["no. 4", "no. 3"], ["no. 2", "no. 1"], ["no. 0"],
    ]  # fmt: skip
    assert read(page, f"/agents/{ada}")["unread"] == 5
    assert read(page, f"/agents/{bob}/messages") == {"total": 0, "cursor": None, "messages": []}
    assert read_error(page, "/agents/ag_x/messages") == (404, "AGENT_NOT_FOUND")


def test_agents_and_messages_have_cursors_like_every_list(app: Application, page: TestClient):
    ids = [call_tool(app, "agent_register", name=f"a{n}", runtime="codex")["id"] for n in range(4)]

    pages = read_pages(page, "/agents", "agents", limit=2)

    assert sorted(agent["id"] for part in pages for agent in part) == sorted(ids)
    assert [len(part) for part in pages] == [2, 2]


# The rest


def test_search_finds_runs_tasks_decisions_and_issues(world: World, page: TestClient):
    found = read(page, "/search", q="currenc")["results"]
    assert {(each["kind"], each["title"]) for each in found} == {
        ("run", "Payments"), ("issue", "Which currency comes first?"),
    }  # fmt: skip
    [task] = read(page, "/search", q="backend")["results"]
    assert (task["kind"], task["id"], task["run"]["name"]) == ("task", world.planned["backend"], "Release")
    [decision] = read(page, "/search", q="floats")["results"]
    assert (decision["kind"], decision["task_id"]) == ("decision", world.tasks["look"])
    [run] = read(page, "/search", q="letter")["results"]
    assert run["id"] == world.job


def test_search_finds_registered_agents_by_name(world: World, page: TestClient):
    [name] = {each["name"] for each in read(page, "/agents")["agents"]} & {"Edsger"} or {
        read(page, "/agents")["agents"][0]["name"]
    }

    found = read(page, "/search", q=name.upper())["results"]

    assert [(each["kind"], each["title"]) for each in found if each["kind"] == "agent"] == [("agent", name)]
    assert "run" not in found[-1]


def test_the_log_of_everything_is_read_in_pages_and_has_the_names_of_its_ids(world: World, page: TestClient):
    whole = read(page, "/log", limit=1000)
    seqs = [event["seq"] for event in whole["events"]]
    assert seqs == list(range(whole["oldest_seq"], whole["last_seq"] + 1))
    assert {event["workflow_id"] for event in whole["events"]} > {world.track, world.plan}
    assert whole["names"][world.track] == "Payments"
    assert whole["names"][world.planned["backend"]] == "backend"

    newest = read(page, "/log", limit=3)["events"]
    assert [event["seq"] for event in newest] == seqs[-3:]
    older = read(page, "/log", limit=3, before=seqs[-3])["events"]
    assert [event["seq"] for event in older] == seqs[-6:-3]
    decisions = read(page, "/log", type="decision:created", limit=1000)["events"]
    assert {event["type"] for event in decisions} == {"decision:created"}


def test_the_jobs_endpoint_returns_the_jobs_of_the_project(world: World, page: TestClient):
    answer = read(page, "/jobs")

    assert "letter" in [job["name"] for job in answer["jobs"]]
    assert answer["errors"] == []


def test_the_status_describes_the_store(world: World, page: TestClient, location: str):
    answer = read(page, "/status")

    assert answer["database"]["kind"] == ("postgresql" if "://" in location else "sqlite")
    assert answer["database"]["schema"]
    assert answer["database"]["size_bytes"] > 0
    assert answer["counts"]["tracked_tasks"] == 5
    assert answer["events"]["last_seq"] == answer["counts"]["events"]
    assert answer["events"]["kept_days"] == 30
    assert answer["snapshots"]["mode"] == "checksum"


def test_the_status_has_the_duration_of_the_last_snapshot(app: Application, page: TestClient):
    assert read(page, "/status")["snapshots"] == {"mode": "none"}
    where = (id := track.create_workflow(app), track.create_phase(app, id, 1))
    task = track.create_task(app, where, "look")

    with app.database.transaction() as tx:
        tx.execute(
            "UPDATE watches SET began = :began WHERE task_id = :id", id=task, began='{"kind": "git", "ms": 7}'
        )

    assert read(page, "/status")["snapshots"] == {"mode": "git", "last_ms": 7}


def test_me_returns_the_name_and_scope_of_the_token(page: TestClient):
    me = read(page, "/me")
    assert (me["name"], me["scope"], me["is_person"]) == ("owner", "admin", True)


def test_an_approval_that_belongs_to_no_run_is_listed(app: Application, page: TestClient):
    asked = ask(app, ApprovalRequest(ApprovalKind.BUDGET, "day", None, {"name": "today"}))

    [need] = read(page, "/home")["needs_you"]

    assert (need["kind"], need["id"], need["title"]) == ("approval", asked.id, "Approve the budget of today")
