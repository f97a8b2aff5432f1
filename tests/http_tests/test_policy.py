"""The access policy as a table of requests and verdicts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from deepwork.edge.server.http.owner_token import CODE_SECONDS, MAX_CODES, LoginCodes
from deepwork.edge.server.http.policy import (
    COOKIE_SECONDS,
    AccessPolicy,
    Admitted,
    RefusedRequest,
    RequestInfo,
    authorize_request,
    is_code_login,
)

TOKEN = "t" * 32
NOW = 1_800_000_000
POLICY = AccessPolicy(
    hosts=frozenset({"127.0.0.1:8000", "localhost:8000"}),
    token=TOKEN,
    mcp_needs_token=False,
    clock=lambda: NOW + 0.5,
)
STRICT = AccessPolicy(hosts=POLICY.hosts, token=TOKEN, mcp_needs_token=True)
HOST = {"host": "127.0.0.1:8000"}
OWN = {"origin": "http://127.0.0.1:8000"}
BEARER = {"authorization": f"Bearer {TOKEN}"}
COOKIE = {"cookie": f"other=1; deepwork={POLICY.build_cookie()}"}


def verdict(
    path: str = "/api/v1/agents", policy: AccessPolicy = POLICY, method: str = "GET", **given: Any
) -> Any:
    headers = given.pop("headers", {})
    return authorize_request(RequestInfo(method, path, HOST | headers, **given), policy)


def status(**given: Any) -> int:
    judged = verdict(**given)
    return judged.status if isinstance(judged, RefusedRequest) else 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "localhost.evil.com:8000", "127.0.0.1.nip.io:8000", "127.0.0.1:8001", "127.0.0.1", "",
        "127.0.0.1:8000@evil.example", "0.0.0.0:8000", "[::1]:8000",
    ],
)  # fmt: skip
def test_an_unknown_host_name_is_refused_even_with_the_token(host: str):
    assert status(headers={"host": host} | BEARER) == 421
    assert status(path="/health", headers={"host": host}) == 421
    assert status(path="/ws", headers={"host": host} | BEARER, is_websocket=True) == 421


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example", "null", "http://localhost:9999", "http://127.0.0.1:8000.evil.example", "",
        "http://localhost:8000@evil.example", "http://127.0.0.1:8000/", "file://", "http://[", "chrome-extension://x",
    ],
)  # fmt: skip
def test_a_foreign_origin_is_refused_even_with_the_token(origin: str):
    for headers in (BEARER, COOKIE, {}):
        assert status(headers={"origin": origin} | headers) == 403
        assert status(path="/mcp", method="POST", headers={"origin": origin} | headers) == 403
        assert status(path="/ws", headers={"origin": origin} | headers, is_websocket=True) == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_cross_site_request_is_refused(site: str):
    assert status(path="/mcp", method="POST", headers={"sec-fetch-site": site}) == 403


def test_the_token_of_the_owner_is_admitted():
    assert verdict(headers=BEARER) == Admitted("owner", is_person=True)
    assert verdict(headers={"authorization": f"bearer {TOKEN}"}) == Admitted("owner", is_person=True)


@pytest.mark.parametrize(
    "given", ["Bearer", "Bearer ", "Bearer x", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", "é"]
)
def test_a_wrong_token_is_refused_even_on_routes_that_need_none(given: str):
    for path in ("/api/v1/agents", "/mcp", "/ws", "/"):
        refused = verdict(path=path, headers={"authorization": given})
        assert isinstance(refused, RefusedRequest)
        assert (refused.status, refused.is_guess) == (401, True)


@pytest.mark.parametrize(
    "path", ["/", "/api/v1/agents", "/api/v1/events", "/ws", "/mcpx", "/nowhere", "/healthy"]
)
def test_without_a_token_only_mcp_and_health_are_open(path: str):
    assert status(path=path) == 401


def test_local_mcp_needs_no_token_unless_the_policy_requires_one():
    for path in ("/mcp", "/sse", "/messages/", "/mcp/x"):
        assert verdict(path=path, method="POST") == Admitted(None)
        assert status(path=path, method="POST", policy=STRICT) == 401
        assert verdict(path=path, method="POST", policy=STRICT, headers=BEARER) == Admitted(
            "owner", is_person=True
        )


def test_health_needs_no_token():
    assert verdict(path="/health", policy=STRICT) == Admitted(None)


def test_a_token_in_the_query_logs_in_only_at_the_root_path():
    assert verdict(path="/", query_token=TOKEN) == Admitted("owner", is_person=True, logs_in=True)
    assert status(path="/", query_token="x" * 32) == 401
    assert status(path="/api/v1/agents", query_token=TOKEN) == 401
    assert status(path="/", query_token=TOKEN, method="POST") == 401


def test_a_valid_cookie_may_read():
    assert verdict(headers=COOKIE) == Admitted("owner", is_person=True, expires_at=NOW + COOKIE_SECONDS)
    assert status(headers={"cookie": "deepwork=forged"}) == 401
    assert status(headers={"cookie": f"deepwork={TOKEN}"}) == 401


def test_a_cookie_may_write_only_from_the_same_origin():
    for given in ({"method": "POST"}, {"method": "DELETE"}, {"path": "/ws", "is_websocket": True}):
        assert status(headers=COOKIE, **given) == 403
        assert status(headers=COOKIE | OWN, **given) == 200


def test_the_policy_does_not_expose_its_token():
    assert TOKEN not in repr(POLICY)
    assert TOKEN not in POLICY.build_cookie()


@pytest.mark.parametrize(("seconds", "admits"), [(COOKIE_SECONDS - 1, True), (COOKIE_SECONDS, False)])
def test_a_cookie_expires_at_the_server(seconds: int, admits: bool):
    later = replace(POLICY, clock=lambda: NOW + seconds)

    assert (status(headers=COOKIE, policy=later) == 200) is admits


def test_a_client_cannot_extend_its_cookie():
    owner, expires_at, signature = POLICY.build_cookie().split(".")
    later = replace(POLICY, clock=lambda: NOW + COOKIE_SECONDS)
    forged = [
        f"{owner}.{int(expires_at) + 1}.{signature}", f"{owner}.{signature}", signature, f"{owner}..{signature}",
        f"{owner}.{expires_at}0.{signature}", f"{owner}.-1.{signature}", f"{owner}.²³.{signature}",
        f"{owner}.{expires_at}.{signature}.x",
    ]  # fmt: skip

    for cookie in forged:
        assert status(headers={"cookie": f"deepwork={cookie}"}, policy=later) == 401, cookie
        assert status(headers={"cookie": f"deepwork={cookie}"}) == 401, cookie


def test_a_login_code_logs_in_only_at_the_root_path_and_if_it_is_valid():
    request = RequestInfo("GET", "/", HOST, login_code="x")

    assert authorize_request(request, POLICY, has_valid_code=True) == Admitted(
        "owner", logs_in=True, is_person=True
    )
    refused = authorize_request(request, POLICY)
    assert isinstance(refused, RefusedRequest)
    assert (refused.status, refused.is_guess) == (401, True)
    for given in ({"path": "/api/v1/agents"}, {"method": "POST"}, {"is_websocket": True}):
        other = replace(request, **given)
        assert not is_code_login(other)
        assert isinstance(authorize_request(other, POLICY, has_valid_code=True), RefusedRequest)


class TestLoginCodes:
    def test_a_code_is_valid_once(self):
        codes = LoginCodes()
        first, second = codes.create(), codes.create()

        assert first != second
        assert [codes.redeem(each) for each in (first, first, second, "", "x")] == [
            True,
            False,
            True,
            False,
            False,
        ]

    def test_a_code_is_valid_for_a_minute(self):
        now = 5.0
        codes = LoginCodes(lambda: now)
        early, late = codes.create(), codes.create()

        now += CODE_SECONDS - 0.1
        assert codes.redeem(early)
        now += 0.1
        assert not codes.redeem(late)

    def test_unused_codes_are_limited_in_number(self):
        codes = LoginCodes()
        made = [codes.create() for _ in range(MAX_CODES + 1)]

        assert [codes.redeem(each) for each in made] == [False] + [True] * MAX_CODES
