"""Decisions about a step at its quality gate, over REST."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from application import Clock, make_app
from approvals.person import PASSPHRASE, enroll_passphrase
from dashboard.make import HOST, create_client, create_token, read
from deepwork.edge.server.application import Application
from jobs.project import make_review, make_step, write_files, write_job
from jobs.runs import finish_step, start_job

VERBS = {"pass": {"comment": "Fine."}, "send-back": {"text": "Name the sources."}, "grant-round": {}}


@pytest.fixture
def id(app: Application, tmp_path: Path) -> str:
    """A session whose first step is at its gate."""
    return make_held_session(app, tmp_path)


def make_held_session(app: Application, root: Path) -> str:
    write_files(root, "a.md", "b.md")
    write_job(root, "chain", [make_step("a", reviews=[make_review()]), make_step("b")])
    id = start_job(app)
    finish_step(app, "a.md")
    fail_review(app)
    return id


def fail_review(app: Application) -> None:
    """Submit step a with the verdict of the agent's reviewer that it is not good."""
    finish_step(app, "a.md", review_results=[{"review_run_each": "step", "passed": False, "feedback": "No."}])


def list_gates(page: TestClient) -> list[Any]:
    return [each for each in read(page, "/home")["needs_you"] if each["kind"] == "gate"]


def post(page: TestClient, id: str, verb: str, **body: Any) -> Any:
    return page.post(f"/api/v1/sessions/{id}/{verb}", json=body)


def list_labels(page: TestClient, id: str) -> list[str]:
    return [each["label"] for each in read(page, f"/runs/{id}")["actions"]]


@pytest.mark.parametrize("verb", VERBS)
def test_a_decision_is_recorded_as_the_persons_and_shown(page: TestClient, id: str, verb: str):
    assert list_labels(page, id) == ["Pass", "Send back", "Grant a review", "Abort"]

    answer = post(page, id, verb, **VERBS[verb])

    assert answer.status_code == 200, answer.text
    assert answer.json()["by"] == "human:owner"
    [step, _] = read(page, f"/runs/{id}")["session"]["steps"]
    [made] = step["gate_decisions"]
    assert (made["by"], made["decision"]) == ("human:owner", answer.json()["decision"])
    assert made.get("text") == next(iter(VERBS[verb].values()), None)
    assert list_gates(page) == []


def test_a_body_without_the_text_is_refused_in_words_of_the_request(page: TestClient, id: str):
    answer = post(page, id, "send-back")

    error = answer.json()
    assert (answer.status_code, error["code"]) == (400, "INVALID_INPUT")
    assert error["message"] == "`text` is missing."
    assert error["suggestion"] == "Correct this and send it again. The body may have: text, step_id."


def test_after_a_decision_the_page_offers_only_what_is_possible(page: TestClient, id: str):
    post(page, id, "send-back", text="Again.")
    assert list_labels(page, id) == ["Abort"]
    assert [each["label"] for each in read(page, f"/tasks/{id}%2Fa")["actions"]] == ["Abort"]


def test_home_offers_the_decisions(page: TestClient, id: str):
    [need] = list_gates(page)

    action = need["actions"][0]
    answer = page.post(f"/api/v1/actions/{action['tool']}", json=action["arguments"])

    assert (action["asks"][0]["optional"], answer.json()["status"]) == (True, "next_step")


def test_a_submitted_step_needs_nobody_until_its_review_fails(
    app: Application, page: TestClient, tmp_path: Path
):
    write_files(tmp_path, "a.md")
    write_job(tmp_path, "chain", [make_step("a", reviews=[make_review()])])
    id = start_job(app)

    finish_step(app, "a.md")
    assert list_gates(page) == []
    fail_review(app)
    [need] = list_gates(page)
    assert (need["title"], need["detail"]) == ("a did not pass its review", "No.")
    post(page, id, "send-back", text="Again.")
    finish_step(app, "a.md")  # is answered with the text
    finish_step(app, "a.md")  # waits for its review again
    assert list_gates(page) == []


def test_a_step_that_is_submitted_again_and_again_without_a_review_needs_a_person(
    app: Application, page: TestClient, tmp_path: Path
):
    write_files(tmp_path, "a.md")
    write_job(tmp_path, "chain", [make_step("a", reviews=[make_review()])])
    id = start_job(app)
    for _ in range(2):
        finish_step(app, "a.md")
    assert list_gates(page) == []

    finish_step(app, "a.md")

    assert [each["title"] for each in list_gates(page)] == ["a was submitted 3 times without a review"]
    post(page, id, "grant-round")
    assert list_gates(page) == []


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("zzzzzzzz/pass", {}, 404, "SESSION_NOT_FOUND"),
        ("{id}/nothing", {}, 404, "INVALID_INPUT"),
        ("{id}/send-back", {}, 400, "INVALID_INPUT"),
        ("{id}/pass", {"step_id": "b"}, 409, "INVALID_STATE"),
        ("{id}/pass", {"odd": 1}, 400, "INVALID_INPUT"),
    ],
)
def test_a_wrong_decision_is_refused(
    page: TestClient, id: str, path: str, body: dict[str, Any], status: int, code: str
):
    answer = page.post(f"/api/v1/sessions/{path.format(id=id)}", json=body)

    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.json()["suggestion"]


def test_the_path_decides_which_session_is_meant(page: TestClient, id: str):
    assert post(page, id, "pass", session_id="zzzzzzzz").json()["session_id"] == id


def test_a_decision_has_the_guards_of_every_action(app: Application, page: TestClient, id: str):
    path = f"/api/v1/sessions/{id}/pass"

    assert page.get(path).status_code == 405
    assert page.post(path, data={}).status_code == 415
    assert page.post(path, json={}, headers={"origin": "http://evil.example"}).status_code == 403
    reader = create_client(app, create_token(app, "eve", "read"))
    assert reader.post(path, json={}).status_code == 403
    assert page.post(path, json={}, headers={"origin": f"http://{HOST}"}).status_code == 200


def test_a_read_only_server_refuses_decisions(tmp_path: Path, location: str, clock: Clock):
    writing = make_app(tmp_path, location, clock)
    id = make_held_session(writing, tmp_path)
    app = make_app(tmp_path, location, clock, read_only=True)

    answer = post(create_client(app), id, "pass")

    assert (answer.status_code, answer.json()["message"]) == (409, "This server is read-only.")
    writing.close()
    app.close()


def test_passing_a_step_takes_the_passphrase_that_is_enrolled(app: Application, page: TestClient, id: str):
    enroll_passphrase(app)

    refused = post(page, id, "pass")
    passed = post(page, id, "pass", proof={"passphrase": PASSPHRASE})

    assert (refused.status_code, refused.json()["proof"]) == (403, "passphrase")
    assert (passed.status_code, passed.json()["decision"]) == (200, "passed")
