"""What a program that saw real requests gets by sending them again: nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from application import make_app
from approvals.authenticator import Authenticator
from approvals.make import ask, make_request, read
from deepwork.gates.approvals.models import ApprovalVerdict
from deepwork.gates.approvals.person_proof import build_decision_challenge
from http_tests.http_server import HttpServer, Reply


class Owner:
    """The owner's browser, under a host name: passkeys need one."""

    def __init__(self, server: HttpServer, token: str | None = None) -> None:
        self.server, self.token = server, token or server.token
        self.host = f"localhost:{server.port}"
        self.origin = f"http://{self.host}"

    def post(self, path: str, body: dict[str, Any], **headers: str) -> Reply:
        given = {
            "Host": self.host, "Origin": self.origin, "Content-Type": "application/json",
            "Authorization": f"Bearer {self.token}",
        }  # fmt: skip
        return self.server.request("POST", f"/api/v1{path}", given | headers, json.dumps(body).encode())

    def enroll(self, passkey: Authenticator) -> None:
        challenge = self.server.get_json("/api/v1/person-proof")["challenge"]
        credential = passkey.register(challenge.encode(), self.origin)
        given = {"name": "laptop", "credential": credential, "challenge": challenge}
        done = self.post("/actions/enroll_passkey", given)
        assert done.status == 200, done.body

    def answer(self, passkey: Authenticator, approval: dict[str, Any], verdict: str = "approve") -> Any:
        challenge = build_decision_challenge(
            ApprovalVerdict(verdict), approval["id"], approval["digest"], None
        )
        return {"proof": {"passkey": passkey.answer(challenge, self.origin)}}


@pytest.fixture
def owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Owner]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("DEEPWORK_TESTS_ACCOUNT_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "project").mkdir()
    with HttpServer(tmp_path / "project") as server:
        yield Owner(server)


def ask_for(owner: Owner, *subjects: str) -> list[dict[str, Any]]:
    app = make_app(owner.server.project, "")
    try:
        asked = [ask(app, make_request(subject=f"s1/{name}", name=name)) for name in subjects]
        return [{"id": each.id, "digest": each.digest} for each in asked]
    finally:
        app.close()


def read_status(owner: Owner, id: str) -> str:
    app = make_app(owner.server.project, "")
    try:
        return read(app, id).status.value
    finally:
        app.close()


@pytest.mark.parametrize("is_shared", [False, True])
def test_an_answer_of_a_passkey_decides_once_and_about_nothing_else(owner: Owner, is_shared: bool) -> None:
    """Passkeys that several devices share do not count, so only the challenge tells a replay."""
    passkey = Authenticator(is_shared=is_shared)
    owner.enroll(passkey)
    one, two = ask_for(owner, "one", "two")
    body = owner.answer(passkey, one)

    elsewhere = owner.post(f"/approvals/{two['id']}/approve", body)
    refusal = owner.post(f"/approvals/{one['id']}/refuse", body)
    with ThreadPoolExecutor(4) as threads:
        calls = [
            threads.submit(
                owner.post,
                f"/approvals/{one['id']}/approve",
                owner.answer(passkey, one) if number == 0 else body,
            )
            for number in range(4)
        ]
        codes = sorted(call.result().status for call in calls)
    again = owner.post(f"/approvals/{one['id']}/approve", body)

    assert (elsewhere.status, refusal.status, again.status) == (403, 403, 403), again.body
    assert codes.count(200) == 1, codes
    assert (read_status(owner, one["id"]), read_status(owner, two["id"])) == ("given", "pending")


def test_an_answer_to_another_server_of_the_same_host_decides_nothing(owner: Owner, tmp_path: Path) -> None:
    passkey = Authenticator()
    owner.enroll(passkey)
    (one,) = ask_for(owner, "one")
    challenge = build_decision_challenge(ApprovalVerdict.APPROVE, one["id"], one["digest"], None)
    other = passkey.answer(challenge, "http://localhost:1")

    refused = owner.post(f"/approvals/{one['id']}/approve", {"proof": {"passkey": other}})
    foreign = owner.post(
        f"/approvals/{one['id']}/approve", {"proof": {"passkey": other}}, Origin="http://localhost:1"
    )

    assert (refused.status, foreign.status) == (403, 403)
    assert read_status(owner, one["id"]) == "pending"


def test_a_cookie_of_one_server_opens_no_other_one_of_the_host(owner: Owner, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with HttpServer(tmp_path / "other") as other:
        login = owner.server.get(f"/?token={owner.token}")
        name, _, value = login.headers["set-cookie"].partition(";")[0].partition("=")
        cookies = [f"{name}={value}", f"{name.replace(str(owner.server.port), str(other.port))}={value}"]

        own = owner.server.get("/api/v1/me", Cookie=cookies[0])
        answers = [other.get("/api/v1/me", Cookie=cookie).status for cookie in cookies]

    assert (login.status, own.status, answers) == (303, 200, [401, 401])
