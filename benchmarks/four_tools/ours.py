"""The four tools on deepwork's protocol core: `MessageHandler` and `StreamableHttp`, served by uvicorn."""

# ruff: noqa: ARG002 - a service is given more than these tools need

from __future__ import annotations

import http.client
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from benchmarks.four_tools.tools import (
    UVICORN,
    answer_fetch,
    answer_fibonacci,
    answer_json,
    answer_query,
    use_one_core,
)

from deepwork.kernel.protocol.handler import MessageHandler, ToolAnswer
from deepwork.kernel.protocol.messages import JsonText, Request, RequestError, to_json
from deepwork.kernel.protocol.revisions import INVALID_PARAMS, METHOD_NOT_FOUND
from deepwork.kernel.protocol.transports.http import StreamableHttp

_own = threading.local()


def fetch_external_data(endpoint: str) -> dict[str, Any]:
    """Fetch over HTTP; each thread keeps its connection."""
    began = time.perf_counter()
    parts = urlsplit(endpoint)
    if not hasattr(_own, "connection"):
        _own.connection = http.client.HTTPConnection(parts.netloc, timeout=10)
    _own.connection.request("GET", parts.path)
    answer = _own.connection.getresponse()
    answer.read()
    return answer_fetch(endpoint, answer.status, int((time.perf_counter() - began) * 1000))


def simulate_database_query(query: str, delay_ms: int = 0) -> dict[str, Any]:
    """Wait as long as a query would take."""
    time.sleep(delay_ms / 1000)
    return answer_query(query, delay_ms)


TOOLS: dict[str, tuple[Callable[..., dict[str, Any]], dict[str, type], str]] = {
    "calculate_fibonacci": (answer_fibonacci, {"n": int}, "Calculate a Fibonacci number recursively."),
    "fetch_external_data": (fetch_external_data, {"endpoint": str}, "Fetch from an HTTP interface."),
    "process_json_data": (answer_json, {"data": dict}, "Turn every text of an object into capitals."),
    "simulate_database_query": (
        simulate_database_query,
        {"query": str, "delay_ms": int},
        "Wait as long as a query would take.",
    ),
}
_WAITING = {"fetch_external_data", "simulate_database_query"}
_TYPES = {int: "integer", str: "string", dict: "object"}


class FourTools:
    """Answers for the four tools; see `deepwork.kernel.protocol.handler.Service`."""

    name, version, instructions = "four tools", "1", "Four tools to measure."
    offers_tasks = False

    def __init__(self) -> None:
        self._listed = JsonText("[" + ",".join(to_json(_describe(name)) for name in TOOLS) + "]")

    def is_quick(self, request: Request) -> bool:
        return request.method == "tools/list" or request.params.get("name") not in _WAITING

    def is_long(self, request: Request) -> bool:
        return False

    def may_become_task(self, request: Request) -> bool:
        return False

    def get_owner(self, request: Request) -> None:
        return None

    def observe(self, request: Request) -> AbstractContextManager[object]:
        return nullcontext()

    def list_tools(self, request: Request) -> JsonText:
        return self._listed

    def call_tool(self, request: Request, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        if name not in TOOLS:
            raise RequestError(INVALID_PARAMS, f"Unknown tool: {name!r}")
        work, types, _ = TOOLS[name]
        if not all(isinstance(value, types.get(key, ())) for key, value in arguments.items()):
            raise RequestError(INVALID_PARAMS, f"Wrong arguments for {name}")
        text = to_json(work(**arguments))
        return ToolAnswer(text, text)

    def list_prompts(self) -> list[dict[str, Any]]:
        return []

    def get_prompt(self, request: Request, name: str, arguments: Mapping[str, str]) -> dict[str, Any]:
        raise RequestError(METHOD_NOT_FOUND, "There are no prompts.")

    def list_resources(self) -> list[dict[str, Any]]:
        return []

    def list_templates(self) -> list[dict[str, Any]]:
        return []

    def read_resource(self, request: Request, uri: str) -> dict[str, Any]:
        raise RequestError(METHOD_NOT_FOUND, "There are no resources.")

    def complete(self, reference: Mapping[str, str], argument: Mapping[str, str]) -> dict[str, Any]:
        return {"completion": {"values": []}}


def _describe(name: str) -> dict[str, Any]:
    _, types, about = TOOLS[name]
    properties = {key: {"type": _TYPES[kind]} for key, kind in types.items()}
    schema = {"type": "object", "properties": properties, "required": list(types)[:1]}
    return {"name": name, "description": about, "inputSchema": schema}


async def serve(scope: Any, receive: Any, send: Any) -> None:
    """Answer MCP's requests; there is nothing to start or stop."""
    if scope["type"] == "http":
        await protocol(scope, receive, send)


protocol = StreamableHttp(MessageHandler(FourTools()), lambda _: None)

if __name__ == "__main__":
    use_one_core()
    uvicorn.run(serve, host="127.0.0.1", port=int(sys.argv[1]), lifespan="off", **UVICORN)
