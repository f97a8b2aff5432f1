"""Messages for the differential test: what clients send, good and bad, in both eras."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

RESERVED = "io.modelcontextprotocol/"
ENVELOPE = {f"{RESERVED}protocolVersion": "2026-07-28", f"{RESERVED}clientCapabilities": {}}
CLIENT = {"name": "a test", "version": "1"}
INITIALIZE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": CLIENT}
PLAN_SUMMARY = "deepwork://plans/{id}/summary"
RESOURCE = {"type": "ref/resource", "uri": PLAN_SUMMARY}


@dataclass(frozen=True)
class Step:
    """A message, by a name that is unique in its transcript."""

    name: str
    message: dict[str, Any]
    keeps: str = ""
    """Under this name the answer's id is kept; later messages contain it as `@name`."""


def request(name: str, method: str, params: dict[str, Any] | None = None, **more: Any) -> Step:
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": name, "method": method}
    return Step(name, message if params is None else {**message, "params": params}, **more)


def notify(name: str, method: str, params: dict[str, Any] | None = None) -> Step:
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    return Step(name, message if params is None else {**message, "params": params})


def call(name: str, tool: str, arguments: dict[str, Any] | None = None, keeps: str = "", **more: Any) -> Step:
    params = {"name": tool, **({} if arguments is None else {"arguments": arguments}), **more}
    return request(name, "tools/call", params, keeps=keeps)


def list_common_steps() -> list[Step]:
    """List what is asked in both eras."""
    return [*list_catalog_steps(), *list_call_steps()]


def list_catalog_steps() -> list[Step]:
    """List requests for everything but tools' answers."""
    return [
        request("tools", "tools/list", {}),
        request("tools with a cursor", "tools/list", {"cursor": "x"}),
        request("tools with a bad cursor", "tools/list", {"cursor": 5}),
        request("resources", "resources/list", {}),
        request("resources with a bad cursor", "resources/list", {"cursor": []}),
        request("templates", "resources/templates/list", {}),
        request("prompts", "prompts/list", {}),
        request("a prompt", "prompts/get", {"name": "deepwork_resume"}),
        request(
            "a prompt with null arguments", "prompts/get", {"name": "deepwork_resume", "arguments": None}
        ),
        request(
            "a prompt with a goal", "prompts/get", {"name": "deepwork_start", "arguments": {"goal": "Größe"}}
        ),
        request(
            "a prompt for files", "prompts/get", {"name": "deepwork_review", "arguments": {"files": "a b"}}
        ),
        request("an unknown prompt", "prompts/get", {"name": "nope"}),
        request("a prompt without a name", "prompts/get", {}),
        request(
            "a prompt with a number", "prompts/get", {"name": "deepwork_start", "arguments": {"goal": 1}}
        ),
        request(
            "a prompt with an unknown argument",
            "prompts/get",
            {"name": "deepwork_start", "arguments": {"x": "1"}},
        ),
        request(
            "a prompt for nobody",
            "prompts/get",
            {"name": "deepwork_resume", "arguments": {"agent_id": "ag_x"}},
        ),
        request("a resource", "resources/read", {"uri": "deepwork://sessions"}),
        request("an unknown resource", "resources/read", {"uri": "deepwork://nope"}),
        request("a resource that is no address", "resources/read", {"uri": "nope"}),
        request("a resource with a number", "resources/read", {"uri": 5}),
        request("a resource without an address", "resources/read", {}),
        request("a plan that is not there", "resources/read", {"uri": "deepwork://plans/wf_x/summary"}),
        request("a plan with a space", "resources/read", {"uri": "deepwork://plans/a%20b/summary"}),
        request("a plan with a slash", "resources/read", {"uri": "deepwork://plans/a/b/summary"}),
        request("a plan without an id", "resources/read", {"uri": "deepwork://plans//summary"}),
        request("a context that is not there", "resources/read", {"uri": "deepwork://tracking/tw_x/context"}),
        request(
            "a completion",
            "completion/complete",
            {"ref": RESOURCE, "argument": {"name": "id", "value": "wf"}},
        ),
        request(
            "a completion of another argument",
            "completion/complete",
            {"ref": RESOURCE, "argument": {"name": "x", "value": ""}},
        ),
        request(
            "a completion of a prompt",
            "completion/complete",
            {
                "ref": {"type": "ref/prompt", "name": "deepwork_start"},
                "argument": {"name": "goal", "value": ""},
            },
        ),
        request(
            "a completion with context",
            "completion/complete",
            {"ref": RESOURCE, "argument": {"name": "id", "value": ""}, "context": {"arguments": {"a": "b"}}},
        ),
        request(
            "a completion with a bad context",
            "completion/complete",
            {"ref": RESOURCE, "argument": {"name": "id", "value": ""}, "context": {"arguments": {"a": 1}}},
        ),
        request("a completion of nothing", "completion/complete", {}),
        request(
            "a completion of something else",
            "completion/complete",
            {"ref": {"type": "x"}, "argument": {"name": "id", "value": ""}},
        ),
        request(
            "a completion without a value",
            "completion/complete",
            {"ref": RESOURCE, "argument": {"name": "id"}},
        ),
        request("an unknown method", "foo/bar", {}),
        request("a notification as a request", "notifications/initialized", {}),
        request("tasks", "tasks/list", {}),
        request("roots", "roots/list", {}),
        request("sampling", "sampling/createMessage", {}),
        request("a subscription", "resources/subscribe", {"uri": "deepwork://sessions"}),
        request("a listener", "subscriptions/listen", {"notifications": {}}),
        request("a listener to nothing", "subscriptions/listen", {}),
        notify("a cancelled request that is not there", "notifications/cancelled", {"requestId": "none"}),
        notify("a cancelled request without an id", "notifications/cancelled", {}),
        notify("an unknown notification", "notifications/x", {"a": 1}),
        notify("new roots", "notifications/roots/list_changed"),
    ]


def list_call_steps() -> list[Step]:
    """List calls of tools."""
    return [
        call("no agents", "agent_list"),
        call("no agents, with arguments", "agent_list", {}),
        call("an agent", "agent_register", {"name": "Ada", "runtime": "codex"}, keeps="ada"),
        call(
            "an agent with a strange name",
            "agent_register",
            {"name": "Zoë 🦊 \u2028", "runtime": "codex"},
            keeps="zoe",
        ),
        call("the agent", "agent_get", {"id": "@ada"}),
        call("all agents", "agent_list", {}),
        call(
            "a message",
            "message_send",
            {"sender_id": "@ada", "recipient_id": "@zoe", "message_type": "query", "body": {"up": True}},
        ),
        call("messages", "message_list", {"agent_id": "@zoe"}),
        call(
            "an agent under a key",
            "agent_register",
            {"name": "Bob", "runtime": "codex"},
            _meta={"deepwork/idempotency-key": "once"},
        ),
        call(
            "the same agent under the key",
            "agent_register",
            {"name": "Bob", "runtime": "codex"},
            _meta={"deepwork/idempotency-key": "once"},
        ),
        call(
            "another agent under the key",
            "agent_register",
            {"name": "Eve", "runtime": "codex"},
            _meta={"deepwork/idempotency-key": "once"},
        ),
        call("a key that is a number", "agent_list", {}, _meta={"deepwork/idempotency-key": 5}),
        call(
            "an empty key",
            "agent_register",
            {"name": "x", "runtime": "codex"},
            _meta={"deepwork/idempotency-key": ""},
        ),
        call("an unknown tool", "agent_lst", {}),
        call("an unknown tool with a long name", "x" * 300, {}),
        call("an unknown agent", "agent_get", {"id": "ag_x"}),
        call("a bad type", "agent_get", {"id": 5}),
        call("a missing argument", "agent_register", {"name": "x"}),
        call("an unknown argument", "agent_register", {"name": "x", "runtime": "codex", "nme": "y"}),
        call(
            "deep nesting", "agent_register", {"name": "x", "runtime": "codex", "metadata": {"a": nest(70)}}
        ),
        call("a large number", "agent_register", {"name": "x", "runtime": "codex", "metadata": {"n": 2**60}}),
        call("a plan", "workflow_create", {"name": "P", "source": {"type": "prompt", "content": "x"}}),
        call("plans", "workflow_list", {}),
        call("jobs", "get_workflows", {}),
        call(
            "a job that is not there", "start_workflow", {"goal": "g", "job_name": "x", "workflow_name": "y"}
        ),
        call("a tracked workflow", "start_workflow", {"name": "Move", "objective": "All moved."}),
        call("no session", "abort_workflow", {"explanation": "x"}),
        call("progress by number", "agent_list", {}, _meta={"progressToken": 1}),
        call("progress by text", "agent_list", {}, _meta={"progressToken": "t"}),
        call("progress by list", "agent_list", {}, _meta={"progressToken": []}),
        call("further parameters", "agent_list", {}, task={"ttl": 5}),
    ]


def nest(depth: int) -> Any:
    return [nest(depth - 1)] if depth else []


def list_handshake_steps(revision: str = "2025-06-18") -> list[Step]:
    """List the messages of a client that begins with `initialize`."""
    return [
        request("too early", "tools/list"),
        request("a call that is too early", "tools/call", {"name": "agent_list"}),
        request("an early ping", "ping"),
        request("an unknown method, early", "foo/bar"),
        request("a bad initialize", "initialize", {"protocolVersion": 5}),
        request("an empty initialize", "initialize"),
        request(
            "an initialize without capabilities",
            "initialize",
            {"protocolVersion": "2025-06-18", "clientInfo": CLIENT},
        ),
        request("an initialize without a version", "initialize", INITIALIZE | {"clientInfo": {"name": "x"}}),
        request("initialize", "initialize", INITIALIZE | {"protocolVersion": revision}),
        notify("initialized", "notifications/initialized"),
        request("a ping", "ping"),
        request("a ping with parameters", "ping", {}),
        request("a ping with bad parameters", "ping", {"_meta": 5}),
        request("a ping with no parameters", "ping", None),
        *list_common_steps(),
        request("a log level", "logging/setLevel", {"level": "info"}),
        request("a bad log level", "logging/setLevel", {"level": "loud"}),
        request("no log level", "logging/setLevel", {}),
        request("no more subscription", "resources/unsubscribe", {"uri": "deepwork://sessions"}),
        request("discovery", "server/discover"),
        request("discovery in an envelope", "server/discover", {"_meta": ENVELOPE}),
        request("tools in an envelope", "tools/list", {"_meta": ENVELOPE}),
        request("tools with bad metadata", "tools/list", {"_meta": 5}),
        request("initialize again", "initialize", INITIALIZE | {"protocolVersion": "2030-01-01"}),
    ]


def list_stateless_steps() -> list[Step]:
    """List the messages of a client that sends an envelope with each request."""
    key = f"{RESERVED}protocolVersion"
    return [
        wrap(request("discovery", "server/discover", {})),
        *(wrap(step) for step in list_common_steps()),
        request("a handshake", "initialize", INITIALIZE),
        request("a handshake without a version", "initialize", {}),
        wrap(request("a ping", "ping", {})),
        wrap(request("a log level", "logging/setLevel", {"level": "info"})),
        request("no parameters", "tools/list"),
        request("no metadata", "tools/list", {}),
        request("bad metadata", "tools/list", {"_meta": 5}),
        request("no envelope", "tools/list", {"_meta": {}}),
        request("half an envelope", "tools/list", {"_meta": {key: "2026-07-28"}}),
        request("the other half", "tools/list", {"_meta": {f"{RESERVED}clientCapabilities": {}}}),
        request("another revision", "tools/list", {"_meta": ENVELOPE | {key: "2027-01-01"}}),
        request("an older revision", "tools/list", {"_meta": ENVELOPE | {key: "2025-06-18"}}),
        request("a revision that is a number", "tools/list", {"_meta": ENVELOPE | {key: 7}}),
        request("bad capabilities", "tools/list", {"_meta": ENVELOPE | {f"{RESERVED}clientCapabilities": 5}}),
        request("a bad client", "tools/list", {"_meta": ENVELOPE | {f"{RESERVED}clientInfo": 5}}),
        request("a client", "prompts/list", {"_meta": ENVELOPE | {f"{RESERVED}clientInfo": CLIENT}}),
        request(
            "a client without a version",
            "prompts/list",
            {"_meta": ENVELOPE | {f"{RESERVED}clientInfo": {"name": "x"}}},
        ),
        request("no revision", "prompts/list", {"_meta": ENVELOPE | {key: None}}),
        request("an empty revision", "prompts/list", {"_meta": ENVELOPE | {key: ""}}),
        request("a call without an envelope", "tools/call", {"name": "agent_list"}),
        request(
            "a call of another revision",
            "tools/call",
            {"name": "agent_list", "_meta": ENVELOPE | {key: "2027-01-01"}},
        ),
        wrap(request("no more subscription", "resources/unsubscribe", {"uri": "deepwork://sessions"})),
        request("an unknown method without an envelope", "foo/bar", {}),
        wrap(request("tools with further parameters", "tools/list", {"x": 1})),
    ]


def wrap(step: Step) -> Step:
    """Add the envelope to a request."""
    if "id" not in step.message:
        return step
    params = step.message.get("params", {})
    meta = {**ENVELOPE, **params.get("_meta", {})}
    return Step(step.name, {**step.message, "params": {**params, "_meta": meta}}, step.keeps)


@dataclass(frozen=True)
class HttpStep:
    """An HTTP request to `/mcp`."""

    name: str
    message: dict[str, Any] | None = None
    method: str = "POST"
    headers: dict[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    """Headers that are usually sent, but not here."""
    in_session: bool = True
    keeps: str = ""


def list_http_handshake_steps() -> list[HttpStep]:
    """List requests of a client that opens a session."""
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    opening = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}
    response = {"jsonrpc": "2.0", "id": 1, "result": {}}
    return [
        HttpStep("no session", ping, in_session=False),
        HttpStep("no session to read", method="GET", in_session=False),
        HttpStep("no session to end", method="DELETE", in_session=False),
        HttpStep("another method", method="PUT", in_session=False),
        HttpStep("initialize as text", opening, headers={"content-type": "text/plain"}, in_session=False),
        HttpStep("initialize without a type", opening, without=("content-type",), in_session=False),
        HttpStep("initialize for HTML", opening, headers={"accept": "text/html"}, in_session=False),
        HttpStep("initialize for nothing", opening, without=("accept",), in_session=False),
        HttpStep("initialize", opening),
        HttpStep("a notification", {"jsonrpc": "2.0", "method": "notifications/initialized"}),
        HttpStep("a response", response),
        HttpStep("another session", ping, headers={"mcp-session-id": "x"}),
        HttpStep("another session to read", method="GET", headers={"mcp-session-id": "x"}),
        HttpStep("a stream as JSON", method="GET", headers={"accept": "application/json"}),
        HttpStep("any type", ping, headers={"accept": "*/*"}),
        HttpStep("any application type", ping, headers={"accept": "text/html, application/*;q=0.5"}),
        HttpStep("JSON alone", ping, headers={"accept": "application/json"}),
        HttpStep("JSON with an encoding", ping, headers={"content-type": "application/json; charset=utf-8"}),
        HttpStep("the revision", ping, headers={"mcp-protocol-version": "2025-06-18"}),
        HttpStep("an older revision", ping, headers={"mcp-protocol-version": "2024-11-05"}),
        HttpStep(
            "a call", call("x", "agent_register", {"name": "Ada", "runtime": "codex"}).message, keeps="ada"
        ),
        HttpStep("a read", call("x", "agent_get", {"id": "@ada"}).message),
        *(
            HttpStep(f"in a session: {step.name}", step.message, keeps=step.keeps)
            for step in list_common_steps()
        ),
        HttpStep("the end", method="DELETE"),
        HttpStep("after the end", ping),
    ]


def list_http_stateless_steps() -> list[HttpStep]:
    """List requests without a session, each with the headers that repeat its body."""
    found = [repeat_in_headers(step) for step in list_stateless_steps() if "id" in step.message]
    tools = wrap(request("x", "tools/list", {})).message
    list_all = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/list"}
    get = wrap(call("x", "agent_get", {"id": "ag_x"})).message
    get_headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call"}
    notification = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    more = [
        HttpStep("the wrong method in the header", tools, headers=list_all | {"mcp-method": "tools/call"}),
        HttpStep("no method in the header", tools, headers=list_all, without=("mcp-method",)),
        HttpStep(
            "another revision in the header", tools, headers=list_all | {"mcp-protocol-version": "2027-01-01"}
        ),
        HttpStep("no name in the header", get, headers=get_headers),
        HttpStep("the wrong name in the header", get, headers=get_headers | {"mcp-name": "agent_list"}),
        HttpStep("an encoded name", get, headers=get_headers | {"mcp-name": "=?base64?YWdlbnRfZ2V0?="}),
        HttpStep("a badly encoded name", get, headers=get_headers | {"mcp-name": "=?base64?***?="}),
        HttpStep("for HTML", tools, headers=list_all | {"accept": "text/html"}),
        HttpStep("as text", tools, headers=list_all | {"content-type": "text/plain"}),
        HttpStep("a stream", method="GET", headers=list_all),
        HttpStep("an end", method="DELETE", headers=list_all),
        HttpStep("a notification", notification, headers=list_all),
        HttpStep(
            "a notification of another revision", notification, headers={"mcp-protocol-version": "2027-01-01"}
        ),
        HttpStep("a response", {"jsonrpc": "2.0", "id": 1, "result": {}}, headers=list_all),
    ]
    return [HttpStep(**{**vars(step), "in_session": False}) for step in [*found, *more]]


def repeat_in_headers(step: Step) -> HttpStep:
    """Send a message with the headers that an honest client sends."""
    params = step.message.get("params", {})
    name = params.get("name", params.get("uri"))
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": step.message["method"]}
    return HttpStep(
        step.name,
        step.message,
        headers=headers | ({"mcp-name": name} if isinstance(name, str) else {}),
        keeps=step.keeps,
    )
