"""Actions from the page: a few tools, in the person's name, and never from another site."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from access.make import list_entries
from application import Clock, call_tool, list_events, make_app
from dashboard.make import HOST, World, create_client, create_token, make_everything, read
from deepwork.edge.server.application import Application
from deepwork.edge.server.http.connections import list_actions
from deepwork.gates.access import models
from deepwork.views.dashboard.actions import ACTIONS_BY_PATH

ACTIONS = [
    "abandon_task",
    "abort_workflow",
    "add_browser",
    "add_channel",
    "approve_work",
    "cancel_landing",
    "clear_items",
    "close_comment",
    "comment_on_task",
    "continue_attempt",
    "drop_task",
    "enroll_passkey",
    "enroll_passphrase",
    "give_approval",
    "give_items",
    "grant_review_round",
    "grant_round",
    "land_work",
    "log_milestone",
    "lower_proof",
    "message_send",
    "note_visit",
    "pass_review",
    "pass_step",
    "pause_attempt",
    "pause_run",
    "prepare_push",
    "preview_rewind",
    "refuse_approval",
    "remove_channel",
    "resolve_issue",
    "restore_items",
    "resume_run",
    "rewind_task",
    "reword_task",
    "send_back_review",
    "send_back_step",
    "send_back_task",
    "set_budget",
    "set_notifications",
    "set_run",
    "snooze_items",
    "stop_attempt",
    "stop_run",
    "take_attempt",
    "task_release",
    "task_update_status",
    "tell",
    "test_channels",
    "undo_rewind",
    "waive_proof",
    "workflow_add_task",
    "workflow_set_parallelism",
    "workflow_update_status",
    "workspace_update",
]
ADMIN_ACTIONS = {"add_channel", "enroll_passkey", "enroll_passphrase", "lower_proof", "set_notifications"}
"""They change what the decisions of all people need, or where the user of this server is told."""
NEED_NOTHING = {"note_visit", "prepare_push", "set_notifications", "test_channels"}
"""They need no arguments."""


@pytest.fixture(autouse=True)
def _has_settings_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the channels of this test from the others: they are in the user's folder."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def act(page: TestClient, tool: str, key: str | None = None, **arguments: Any) -> Any:
    return page.post(
        f"/api/v1/actions/{tool}", json=arguments, headers={"idempotency-key": key} if key else {}
    )  # fmt: skip


def test_resolving_a_blocker_is_recorded_as_done_by_a_person(
    world: World, app: Application, page: TestClient
):
    answer = act(page, "resolve_issue", issue_id=world.blocker, note="Euro first.")

    assert answer.status_code == 200
    assert answer.json()["issue_id"] == world.blocker
    [resolved] = read(page, "/blockers", state="resolved")["blockers"]
    assert resolved["resolved_by"] == "human:owner"
    assert list_events(app)[-1].type == "issue:resolved"
    with app.database.reading() as tx:
        last = tx.fetch_one("SELECT caller, tool, outcome FROM audit ORDER BY seq DESC LIMIT 1")
    assert last == {"caller": "human:owner", "tool": "resolve_issue", "outcome": "done"}


def test_every_action_works(world: World, app: Application, page: TestClient, tmp_path: Path):
    done: dict[str, dict[str, Any]] = {
        "abandon_task": {"task_id": world.tasks["part"], "reason": "Nobody is there."},
        "task_release": {"task_id": world.planned["backend"], "agent_id": world.agent},
        "task_update_status": {"id": world.planned["frontend"], "status": "pending"},
        "workflow_update_status": {"id": world.paused, "status": "in_progress"},
        "message_send": {"recipient_id": world.agent, "message_type": "notification", "body": "Hello."},
        "abort_workflow": {"session_id": world.job, "explanation": "No time."},
        "log_milestone": {"task_id": world.tasks["unsure"], "message": "It is."},
        "workflow_add_task": {"workflow_id": world.plan, "task": {"name": "one more", "depends_on": []}},
        "workflow_set_parallelism": {"id": world.plan, "max_parallel_tasks": 7},
    }

    for tool, arguments in done.items():
        assert act(page, tool, **arguments).status_code == 200, tool

    status = {row[1]: row[2] for row in read(page, f"/runs/{world.plan}/tasks")["rows"]}
    assert (status["backend"], status["frontend"]) == ("pending", "pending")
    assert read(page, f"/runs/{world.paused}")["status"] == "in_progress"
    assert read(page, f"/runs/{world.job}")["status"] == "aborted"
    assert read(page, f"/tasks/{world.tasks['part']}")["task"]["status"] == "failed"
    of_people = {name for name, spec in app.operations.items() if spec.declaration.for_people}
    assert sorted(of_people) == list_actions(app) == ACTIONS
    assert {*done, "resolve_issue", "workspace_update"} == of_people & app.registry.keys()


@pytest.mark.parametrize(
    ("kind", "name", "label"),
    [
        ("manual_review", "unsure", "Approve"),
        ("manual_review", "unsure", "Refuse"),
        ("failed_task", "broken", "Acknowledge"),
    ],
)
def test_a_reviewed_task_no_longer_needs_a_person(
    world: World, app: Application, page: TestClient, kind: str, name: str, label: str
):
    task_id = world.tasks[name]
    [need] = [each for each in read(page, "/home")["needs_you"] if each["id"] == task_id]
    [action] = [each for each in need["actions"] if each["label"] == label]
    assert need["kind"] == kind
    assert read(page, f"/tasks/{task_id}")["actions"] == need["actions"]

    # A milestone logged by an agent does not count as a review.
    lookalikes = {"by": "Ada", 'x"by': "human:Ada", "title": '"by": "human:Ada"', "all": ["by", "human:Ada"]}
    call_tool(app, "log_milestone", task_id=task_id, message="Done.", metadata=lookalikes)
    assert task_id in [each["id"] for each in read(page, "/home")["needs_you"]]
    answer = act(page, action["tool"], **action["arguments"], message="It is legal.")

    assert answer.status_code == 200
    assert task_id not in [each["id"] for each in read(page, "/home")["needs_you"]]
    seen = read(page, f"/tasks/{task_id}")
    assert seen["actions"] == []
    approval = next(each for each in seen["milestones"] if each["message"] == "It is legal.")
    assert approval["metadata"] == {**action["arguments"]["metadata"], "by": "human:owner"}
    with app.database.reading() as tx:
        last = tx.fetch_one("SELECT caller, tool FROM audit ORDER BY seq DESC LIMIT 1")
    assert last == {"caller": "human:owner", "tool": "log_milestone"}


def test_a_client_cannot_sign_for_another_person(world: World, page: TestClient):
    forged: dict[str, Any] = {
        "metadata": {"verdict": "approved", "by": "human:somebody-else"},
        "message": "Fine.",
    }

    act(page, "log_milestone", task_id=world.tasks["unsure"], **forged)

    [said] = read(page, f"/tasks/{world.tasks['unsure']}")["milestones"]
    assert said["metadata"] == {"verdict": "approved", "by": "human:owner"}


def test_a_person_sends_messages_through_an_agent_that_represents_them(world: World, page: TestClient):
    for body in ("one", "two"):
        act(page, "message_send", recipient_id=world.agent, message_type="query", body=body)

    inbox = read(page, f"/agents/{world.agent}/messages")["messages"]
    assert [message["body"] for message in inbox] == ["two", "one"]
    [sender] = {message["sender_id"] for message in inbox}
    shown = read(page, f"/agents/{sender}")
    assert (shown["name"], shown["metadata"]) == ("owner", {"human": True})


def test_an_action_sent_twice_with_one_key_takes_effect_once(
    world: World, app: Application, page: TestClient
):
    message = {"recipient_id": world.agent, "message_type": "query", "body": "Which port?"}

    first, again = (act(page, "message_send", "key-1", **message) for _ in range(2))
    other = act(page, "message_send", "key-1", **message | {"body": "Which host?"})

    assert first.json() == again.json()
    assert read(page, f"/agents/{world.agent}/messages")["total"] == 1
    assert (other.status_code, other.json()["code"]) == (409, "KEY_REUSED")
    assert act(page, "message_send", "k" * 129, **message).status_code == 400


@pytest.mark.parametrize("tool", ACTIONS)
def test_each_action_needs_a_person_and_the_scope_of_its_tool(app: Application, tool: str):
    read_only = act(create_client(app, create_token(app, "eve", "read")), tool)
    needed = "admin" if tool in ADMIN_ACTIONS else "work"
    person = act(create_client(app, create_token(app, "bob", needed, is_person=True)), tool)

    spec = app.operations[tool]
    assert models.get_required_scope(spec.declaration, {}) == needed
    assert (read_only.status_code, read_only.json()["code"]) == (403, "UNAUTHORIZED")
    assert 'scope="work"' in read_only.headers["www-authenticate"]
    # It was allowed, and failed only because of its arguments.
    assert person.json().get("code") != "UNAUTHORIZED"
    assert person.status_code in ((200,) if tool in NEED_NOTHING else (400, 404, 409))


@pytest.mark.parametrize("scope", ["work", "admin"])
def test_the_token_of_an_agent_cannot_act_as_a_person(world: World, app: Application, scope: str):
    page = create_client(app, create_token(app, "agent", scope))
    before = list_events(app)
    calls = {
        **{f"/actions/{tool}": {} for tool in ACTIONS},
        **{
            f"/sessions/{world.job}/{verb}": {} for verb in ACTIONS_BY_PATH["/api/v1/sessions/{id}/{verb}"][1]
        },
        "/actions/resolve_issue": {"issue_id": world.blocker, "note": "Approved."},
        "/actions/log_milestone": {"task_id": world.tasks["unsure"], "message": "x"},
        "/actions/message_send": {"recipient_id": world.agent, "message_type": "query", "body": "x"},
        f"/sessions/{world.job}/pass": {"comment": "Fine."},
    }

    for path, body in calls.items():
        answer = page.post(f"/api/v1{path}", json=body)

        assert (answer.status_code, answer.json()["code"]) == (403, "UNAUTHORIZED"), path
        assert "person" in answer.json()["message"]
        assert "--person" in answer.json()["suggestion"]

    assert list_events(app) == before
    assert read(page, "/me") == {"name": "agent", "scope": scope, "is_person": False, "actions": []}
    refused = [entry for entry in list_entries(app) if entry.entry.outcome == "UNAUTHORIZED"]
    assert len(refused) == len(calls)
    assert {entry.entry.caller for entry in refused} == {"agent"}


def test_a_browser_signed_in_with_the_token_of_an_agent_is_no_person(world: World, app: Application):
    for name, is_person, status in (("agent", False, 403), ("anna", True, 200)):
        page = create_client(app)
        del page.headers["authorization"]
        token = create_token(app, name, "work", is_person=is_person)
        page.get("/", params={"token": token}, follow_redirects=False)

        answer = page.post(
            "/api/v1/actions/resolve_issue",
            json={"issue_id": world.blocker, "note": "x"},
            headers={"origin": f"http://{HOST}"},
        )

        assert answer.status_code == status, name
    assert (
        read(create_client(app), "/blockers", state="resolved")["blockers"][0]["resolved_by"] == "human:anna"
    )


@pytest.mark.parametrize(
    ("flags", "missing", "offered"),
    [
        ({"toolsets": "plans,agents"}, "resolve_issue", "task_update_status"),
        ({"toolsets": "plans,agents"}, "pass_step", "task_update_status"),
        ({"exclude_tools": "task_release"}, "task_release", "task_update_status"),
        ({"exclude_tools": "finished_step"}, "grant_round", "task_update_status"),
        ({"tools": "resolve_issue"}, "send_back_step", "resolve_issue"),
    ],
)
def test_tools_that_the_server_leaves_out_are_no_actions_either(
    tmp_path: Path, flags: dict[str, Any], missing: str, offered: str
):
    app = make_app(tmp_path, "", **flags)
    page = create_client(app)

    refused = act(page, missing)

    actions = read(page, "/me")["actions"]
    described = read(page, "/openapi.json")["paths"]
    assert (refused.status_code, "exclude_tools" in refused.json()["suggestion"]) == (404, True)
    assert act(page, offered).status_code == 400, "it is called, and lacks its arguments"
    assert missing not in actions
    assert offered in actions
    assert described["/api/v1/actions/{tool}"]["post"]["parameters"][0]["schema"]["enum"] == actions
    assert ("/api/v1/sessions/{id}/{verb}" in described) == ("pass_step" in actions)
    app.close()


def test_overriding_rules_needs_a_larger_scope(world: World, app: Application):
    page = create_client(app, create_token(app, "bob", "work", is_person=True))

    answer = act(page, "workflow_update_status", id=world.plan, status="completed", force=True)

    assert (answer.status_code, answer.json()["code"]) == (403, "UNAUTHORIZED")
    assert (
        act(
            create_client(app), "workflow_update_status", id=world.plan, status="completed", force=True
        ).status_code
        == 200
    )


def test_a_person_acts_under_the_name_of_their_token(world: World, app: Application):
    page = create_client(app, create_token(app, "bob", "work", is_person=True))

    act(page, "resolve_issue", issue_id=world.blocker, note="x")

    assert read(page, "/blockers", state="resolved")["blockers"][0]["resolved_by"] == "human:bob"
    assert read(page, "/me") == {"name": "bob", "scope": "work", "is_person": True, "actions": ACTIONS}


def test_a_read_only_token_reads_everything(world: World, app: Application):
    page = create_client(app, create_token(app, "eve", "read"))

    for path in (
        "/home",
        "/runs",
        f"/tasks/{world.tasks['part']}",
        "/jobs",
        f"/tasks/{world.tasks['part']}/diff",
    ):
        assert page.get(f"/api/v1{path}").status_code == 200, path


@pytest.mark.parametrize(
    ("tool", "arguments", "status", "code"),
    [
        ("resolve_issue", {"issue_id": "is_nothing", "note": "x"}, 404, "ISSUE_NOT_FOUND"),
        ("resolve_issue", {"issue_id": "is_nothing"}, 400, "INVALID_INPUT"),
        ("resolve_issue", {"issue_id": 5, "note": "x", "odd": 1}, 400, "INVALID_INPUT"),
        ("abandon_task", {"task_id": "tt_nothing", "reason": "x"}, 404, "TASK_NOT_FOUND"),
        ("abort_workflow", {"session_id": "nothing1", "explanation": "x"}, 404, "SESSION_NOT_FOUND"),
        ("workspace_update", {"id": "ws_nothing"}, 404, "WORKSPACE_NOT_FOUND"),
        ("workflow_update_status", {"id": "wf_nothing", "status": "paused"}, 404, "WORKFLOW_NOT_FOUND"),
    ],
)  # fmt: skip
def test_a_failed_action_has_the_usual_error_format(
    page: TestClient, tool: str, arguments: dict[str, Any], status: int, code: str
):
    answer = act(page, tool, **arguments)

    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert set(answer.json()) == {"code", "message", "recoverable", "suggestion"}


def test_an_action_not_allowed_in_a_state_is_a_conflict(world: World, page: TestClient):
    answer = act(page, "task_update_status", id=world.planned["design"], status="in_progress")

    assert (answer.status_code, answer.json()["code"]) == (409, "INVALID_TRANSITION")


@pytest.mark.parametrize(
    "tool", ["complete_workflow", "token_create", "start_task", "agent_list", "nothing", "%2e%2e"]
)
def test_no_other_tool_can_be_called(page: TestClient, tool: str):
    assert act(page, tool).status_code == 404


def test_an_action_accepts_only_a_post_of_json(page: TestClient):
    path = "/api/v1/actions/resolve_issue"

    assert (page.get(path).status_code, page.get(path).headers["allow"]) == (405, "POST")
    assert page.put(path, json={}).status_code == 405
    assert page.post(path, data={"note": "x"}).status_code == 415
    assert page.post(path, content=b"{}", headers={"content-type": "text/plain"}).status_code == 415
    for body in (b"", b"[]", b"{", b'"x"', b"[" * 100_000, b"\xff"):
        answer = page.post(path, content=body, headers={"content-type": "application/json; charset=utf-8"})
        assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_INPUT"), body[:10]


def test_a_read_only_server_refuses_actions(tmp_path: Path, location: str, clock: Clock):
    writing = make_app(tmp_path, location, clock)
    world = make_everything(writing, tmp_path)
    app = make_app(tmp_path, location, clock, read_only=True)

    answer = act(create_client(app), "resolve_issue", issue_id=world.blocker, note="x")

    assert (answer.status_code, answer.json()["message"]) == (409, "This server is read-only.")
    assert read(create_client(app), "/blockers")["total"] == 1
    writing.close()
    app.close()


class TestFromABrowser:
    """With a cookie, only our own page may act; all other requests from a browser are refused."""

    @pytest.fixture
    def signed_in(self, app: Application) -> TestClient:
        page = create_client(app)
        del page.headers["authorization"]
        answer = page.get(
            "/", params={"token": "the-token-of-the-owner-of-these-tests"}, follow_redirects=False
        )
        assert answer.status_code == 303
        assert "HttpOnly" in answer.headers["set-cookie"]
        return page

    def act(self, page: TestClient, world: World, **headers: str) -> int:
        body = {"issue_id": world.blocker, "note": "x"}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return page.post("/api/v1/actions/resolve_issue", json=body, headers=named).status_code

    def test_the_dashboards_own_page_can_act(self, world: World, signed_in: TestClient):
        assert self.act(signed_in, world, origin=f"http://{HOST}", sec_fetch_site="same-origin") == 200

    @pytest.mark.parametrize(
        "headers",
        [
            {},
            {"origin": "http://evil.example"},
            {"origin": "null"},
            {"origin": f"http://{HOST}", "sec_fetch_site": "cross-site"},
            {"origin": f"http://{HOST}", "sec_fetch_site": "same-site"},
            {"origin": "http://127.0.0.1:9999"},
            {"origin": f"http://user@{HOST}"},
        ],
    )
    def test_other_sites_cannot_act(self, world: World, signed_in: TestClient, headers: dict[str, str]):
        assert self.act(signed_in, world, **headers) == 403
        assert read(signed_in, "/blockers")["total"] == 1

    def test_a_foreign_host_name_is_refused(self, world: World, signed_in: TestClient):
        assert self.act(signed_in, world, origin="http://evil.example", host="evil.example") == 421


def test_agents_are_not_recorded_as_persons(world: World, app: Application):
    """Calls by agents are not recorded as a person's."""
    call_tool(app, "resolve_issue", issue_id=world.blocker, note="x", caller="bob")

    assert read(create_client(app), "/blockers", state="resolved")["blockers"][0]["resolved_by"] == "bob"
