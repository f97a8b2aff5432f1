"""Our protocol core and the FastMCP adapter answer the same transcript in the same way.

Both run over the same registry. What may differ is listed, each with its reason; an entry that no longer
differs fails, so the list cannot outlive its reasons.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

from application import make_app
from deepwork.edge.server.application import Application
from deepwork.edge.server.mcp_server import build_server
from deepwork.edge.server.mcp_service import McpService
from deepwork.kernel.protocol.handler import MessageHandler
from deepwork.kernel.protocol.messages import Peer
from deepwork.kernel.protocol.transports.http import StreamableHttp
from protocol.transcript import (
    HttpStep,
    Step,
    list_handshake_steps,
    list_http_handshake_steps,
    list_http_stateless_steps,
    list_stateless_steps,
)

NEVER_CHANGES = "lists never change while a server runs, so we do not promise to announce changes"
NOT_OFFERED = "a method that we do not offer is unknown, whatever its parameters"
NO_UI = "we offer no user interface extension"
TASKS = "FastMCP offers tasks only with another package"
NO_LOGS = "we send no log messages, and this revision has no method to set their level"
PROMISES = ("prompts.listChanged", "resources.listChanged", "resources.subscribe", "tools.listChanged")
Allowed = dict[tuple[str, str], str]
IN_HANDSHAKE: Allowed = {
    (name, f"result.capabilities.{promise}"): NEVER_CHANGES
    for name in ("initialize", "initialize again")
    for promise in PROMISES
}
IN_STATELESS: Allowed = {
    **{("discovery", f"result.capabilities.{promise}"): NEVER_CHANGES for promise in PROMISES},
    ("discovery", "result.capabilities.extensions.io.modelcontextprotocol/ui"): NO_UI,
    ("discovery", "result.capabilities.extensions.io.modelcontextprotocol/tasks"): TASKS,
    ("discovery", "result.capabilities.logging"): NO_LOGS,
    ("a listener to nothing", "error.code"): NOT_OFFERED,
    ("a listener to nothing", "error.message"): NOT_OFFERED,
    ("a listener to nothing", "error.data"): NOT_OFFERED,
}

IDS = re.compile(r"\b[a-z]{2,4}_[0-9a-z]{12}\b")
TIMES = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")
YEAR_2001 = 10**12
"""In milliseconds; larger numbers are times."""
ABSENT = "(absent)"


@pytest.fixture
def apps(tmp_path: Path) -> Iterator[tuple[Application, Application]]:
    """Two equal projects: calls change them."""
    made = []
    for name in ("core", "fastmcp"):
        (tmp_path / name / "project").mkdir(parents=True)
        made.append(make_app(tmp_path / name / "project", str(tmp_path / name / "x.db")))
    yield made[0], made[1]
    for app in made:
        app.close()


def ask_core(app: Application, steps: Sequence[Step]) -> dict[str, Any]:
    handler, peer, kept = MessageHandler(McpService(app)), Peer(), dict[str, str]()
    answers: dict[str, Any] = {}
    for step in steps:
        answer = handler.handle(fill_in(step.message, kept), peer)
        answers[step.name] = None if answer is None else json.loads(answer.body)
        keep(step.keeps, answers[step.name], kept)
    return answers


def ask_fastmcp(app: Application, steps: Sequence[Step]) -> dict[str, Any]:
    mcp = build_server(app)
    kept: dict[str, str] = {}
    answers: dict[str, Any] = {}

    async def run() -> None:
        to_server, read = anyio.create_memory_object_stream[Any](10)
        write, from_server = anyio.create_memory_object_stream[Any](10)
        server = mcp._mcp_server
        async with mcp._lifespan_manager(), anyio.create_task_group() as group:
            group.start_soon(server.run, read, write, server.create_initialization_options())
            for step in steps:
                message = jsonrpc_message_adapter.validate_python(fill_in(step.message, kept))
                await to_server.send(SessionMessage(message))
                answers[step.name] = None
                if "id" in step.message:
                    answer = (await from_server.receive()).message
                    answers[step.name] = answer.model_dump(by_alias=True, exclude_unset=True)
                    keep(step.keeps, answers[step.name], kept)
            group.cancel_scope.cancel()
        for stream in (to_server, read, write, from_server):
            stream.close()

    anyio.run(run)
    return answers


def fill_in(message: Any, kept: dict[str, str]) -> Any:
    """Put ids of earlier answers in the places of their names."""
    text = json.dumps(message)
    for name, id in kept.items():
        text = text.replace(f"@{name}", id)
    return json.loads(text)


def keep(name: str, answer: Any, kept: dict[str, str]) -> None:
    if name:
        kept[name] = answer["result"]["structuredContent"]["id"]


def normalize(value: Any) -> Any:
    """Replace ids and times; parse JSON inside strings, where the order of keys does not matter."""
    if isinstance(value, dict):
        return {key: normalize(each) for key, each in value.items()}
    if isinstance(value, list):
        return [normalize(each) for each in value]
    if isinstance(value, int) and value > YEAR_2001:
        return "(time)"
    if not isinstance(value, str):
        return value
    if value.startswith(("{", "[")):
        return normalize(json.loads(value))
    return TIMES.sub("(time)", IDS.sub("(id)", value))


def list_differences(one: Any, other: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """List the paths at which two values differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            deeper = f"{path}.{key}" if path else key
            yield from list_differences(one.get(key, ABSENT), other.get(key, ABSENT), deeper)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (mine, theirs) in enumerate(zip(one, other, strict=True)):
            yield from list_differences(mine, theirs, f"{path}[{number}]")
    elif one != other or type(one) is not type(other):
        yield path, one, other


def compare(core: dict[str, Any], fastmcp: dict[str, Any], allowed: Allowed) -> None:
    found = {
        (name, path): (mine, theirs)
        for name in core
        for path, mine, theirs in list_differences(normalize(core[name]), normalize(fastmcp[name]))
    }
    unexpected = {where: values for where, values in found.items() if where not in allowed}
    assert not unexpected, json.dumps([*map(list, unexpected.items())], indent=1)
    assert not allowed.keys() - found.keys(), "this no longer differs: remove it from the list"


def test_each_transcript_is_long_and_its_names_are_unique():
    transcripts: list[Sequence[Step | HttpStep]] = [
        list_handshake_steps(),
        list_stateless_steps(),
        list_http_handshake_steps(),
        list_http_stateless_steps(),
    ]
    for names in ([step.name for step in steps] for steps in transcripts):
        assert len(set(names)) == len(names) >= 100


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2020-01-01"])
def test_a_client_that_shakes_hands_gets_the_same_answers(
    apps: tuple[Application, Application], revision: str
):
    steps = list_handshake_steps(revision)

    compare(ask_core(apps[0], steps), ask_fastmcp(apps[1], steps), IN_HANDSHAKE)


def test_a_stateless_client_gets_the_same_answers(apps: tuple[Application, Application]):
    steps = list_stateless_steps()

    compare(ask_core(apps[0], steps), ask_fastmcp(apps[1], steps), IN_STATELESS)


class HttpClient:
    """Sends HTTP requests to an application in this process."""

    def __init__(self, asgi_app: Any) -> None:
        self._app = asgi_app
        self._session: str | None = None
        self._kept: dict[str, str] = {}

    async def ask(self, step: HttpStep) -> dict[str, Any]:
        """Return the status, the parsed body and the headers that matter to a client."""
        sent: list[Any] = []
        body = b"" if step.message is None else json.dumps(fill_in(step.message, self._kept)).encode()

        parts = iter([{"type": "http.request", "body": body}])

        async def receive() -> Any:
            if (part := next(parts, None)) is None:
                await anyio.sleep_forever()
            return part

        async def send(message: Any) -> None:
            sent.append(message)

        await self._app(self._build_scope(step), receive, send)
        status = int(sent[0]["status"])
        headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        session = headers.get("mcp-session-id") if status < 400 else None
        self._session = self._session or session
        answer = parse_body(b"".join(each.get("body", b"") for each in sent[1:]))
        keep(step.keeps, answer, self._kept)
        allow = headers.get("allow")
        return {"status": status, "body": answer, "allow": allow, "has_session": session is not None}

    def _build_scope(self, step: HttpStep) -> dict[str, Any]:
        headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        if step.in_session and self._session:
            headers["mcp-session-id"] = self._session
        headers |= step.headers
        pairs = [(k.encode(), v.encode()) for k, v in headers.items() if k not in step.without]
        return {
            "type": "http",
            "method": step.method,
            "path": "/mcp",
            "raw_path": b"/mcp",
            "query_string": b"",
            "root_path": "",
            "headers": [(b"host", b"127.0.0.1:8000"), *pairs],
            "client": ("127.0.0.1", 5),
            "server": ("127.0.0.1", 8000),
            "scheme": "http",
            "http_version": "1.1",
            "deepwork.owner": None,
        }


def parse_body(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode()


def ask_over_http(
    apps: tuple[Application, Application], steps: Sequence[HttpStep]
) -> tuple[dict[str, Any], dict[str, Any]]:
    async def run() -> tuple[dict[str, Any], dict[str, Any]]:
        core = HttpClient(StreamableHttp(MessageHandler(McpService(apps[0])), lambda _: None))
        theirs = build_server(apps[1]).http_app("/mcp", json_response=True, host_origin_protection=False)
        async with theirs.lifespan(theirs):
            fastmcp = HttpClient(theirs)
            return {step.name: await core.ask(step) for step in steps}, {
                step.name: await fastmcp.ask(step) for step in steps
            }

    return anyio.run(run)


OVER_HTTP_HANDSHAKE: Allowed = {
    ("initialize", f"body.result.capabilities.{promise}"): NEVER_CHANGES for promise in PROMISES
}
OVER_HTTP_STATELESS: Allowed = {
    (name, f"body.{path}"): reason for (name, path), reason in IN_STATELESS.items()
} | {("a listener to nothing", "status"): NOT_OFFERED}


def test_over_http_a_session_gets_the_same_answers(apps: tuple[Application, Application]):
    compare(*ask_over_http(apps, list_http_handshake_steps()), OVER_HTTP_HANDSHAKE)


def test_over_http_a_stateless_client_gets_the_same_answers(apps: tuple[Application, Application]):
    compare(*ask_over_http(apps, list_http_stateless_steps()), OVER_HTTP_STATELESS)
