"""What the official conformance suite expects of a server: its tools, resources and prompts."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from deepwork.kernel.protocol.handler import ToolAnswer
from deepwork.kernel.protocol.messages import JsonText, Request, RequestError, to_json
from deepwork.kernel.protocol.revisions import INTERNAL_ERROR, INVALID_PARAMS

RED_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
SILENCE = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="
IMAGE = {"type": "image", "data": RED_PIXEL, "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": SILENCE, "mimeType": "audio/wav"}

PATIENCE_SECONDS = 100
CANCELLED: list[bool] = []
"""For each call of `wait_until_cancelled` that ended, whether it was cancelled."""


def embed_resource(uri: str) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": "text/plain", "text": "Embedded."}}


def report_progress(request: Request) -> ToolAnswer:
    for step in (0, 50, 100):
        request.report_progress(step, 100, f"{step} of 100")
    return ToolAnswer("done")


def write_log(_: Request) -> ToolAnswer:
    for step in range(3):
        logging.getLogger("deepwork").warning("step %d", step)
    return ToolAnswer("done")


def wait(request: Request, seconds: float) -> None:
    """Wait so long, or until the client cancels."""
    end = time.monotonic() + seconds
    while not request.is_cancelled and time.monotonic() < end:
        time.sleep(0.01)


def wait_until_cancelled(request: Request) -> ToolAnswer:
    request.report_progress(0)
    wait(request, PATIENCE_SECONDS)
    CANCELLED.append(request.is_cancelled)
    return ToolAnswer("too late")


def compute_slowly(request: Request) -> ToolAnswer:
    wait(request, request.params["arguments"]["seconds"])
    return ToolAnswer("computed", is_error=request.is_cancelled)


def fail_late(request: Request) -> ToolAnswer:
    wait(request, 1)
    return ToolAnswer("This job always fails.", is_error=True)


def break_late(request: Request) -> ToolAnswer:
    wait(request, 1)
    raise RequestError(INTERNAL_ERROR, "This job always breaks.")


TOOLS: dict[str, Callable[[Request], ToolAnswer]] = {
    "test_simple_text": lambda _: ToolAnswer("A simple text."),
    "test_image_content": lambda _: ToolAnswer("An image:", attachments=[IMAGE]),
    "test_audio_content": lambda _: ToolAnswer("A sound:", attachments=[AUDIO]),
    "test_embedded_resource": lambda _: ToolAnswer("A file:", attachments=[embed_resource("test://file")]),
    "test_multiple_content_types": lambda _: ToolAnswer(
        "An image and a file:", attachments=[IMAGE, embed_resource("test://file")]
    ),
    "test_tool_with_progress": report_progress,
    "test_streaming_elicitation": report_progress,
    "test_logging_tool": write_log,
    "test_tool_with_logging": write_log,
    "test_error_handling": lambda _: ToolAnswer("This tool always fails.", is_error=True),
    "json_schema_2020_12_tool": lambda _: ToolAnswer("done"),
    "greet": lambda request: ToolAnswer(f"Hello, {request.params['arguments']['name']}!"),
    "slow_compute": compute_slowly,
    "failing_job": fail_late,
    "protocol_error_job": break_late,
    "confirm_delete": lambda _: ToolAnswer("deleted without a question"),
    "wait_until_cancelled": wait_until_cancelled,
    "list_cancelled": lambda _: ToolAnswer(to_json(CANCELLED)),
}
MAY_BECOME_TASKS = {"slow_compute", "failing_job", "protocol_error_job"}
NO_ARGUMENTS = {"type": "object", "properties": {}}
FULL_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
"""Every kind of keyword that a schema may contain."""

RESOURCES: dict[str, dict[str, str]] = {
    "test://static-text": {"mimeType": "text/plain", "text": "A static text."},
    "test://static-binary": {"mimeType": "image/png", "blob": RED_PIXEL},
}
TEMPLATE = "test://template/{id}/data"

PROMPTS: dict[str, Callable[[Mapping[str, str]], list[dict[str, Any]]]] = {
    "test_simple_prompt": lambda _: [{"type": "text", "text": "A simple prompt."}],
    "test_prompt_with_arguments": lambda given: [
        {"type": "text", "text": f"{given['arg1']} and {given['arg2']}"}
    ],
    "test_prompt_with_embedded_resource": lambda given: [embed_resource(given["resourceUri"])],
    "test_prompt_with_image": lambda _: [IMAGE],
}
ARGUMENTS = {
    "test_prompt_with_arguments": ["arg1", "arg2"],
    "test_prompt_with_embedded_resource": ["resourceUri"],
}


class FixtureService:
    """Offers the fixtures; nothing of deepwork."""

    name, version, instructions = "fixtures", "1", "Test the protocol."
    offers_tasks = True

    def is_quick(self, request: Request) -> bool:
        return request.method != "tools/call"

    def is_long(self, request: Request) -> bool:
        return False

    def may_become_task(self, request: Request) -> bool:
        return request.params["name"] in MAY_BECOME_TASKS

    def get_owner(self, request: Request) -> None:
        """All requests come from the same client."""

    def observe(self, request: Request) -> AbstractContextManager[object]:
        return nullcontext()

    def list_tools(self, request: Request) -> JsonText:
        schemas = dict.fromkeys(TOOLS, NO_ARGUMENTS) | {"json_schema_2020_12_tool": FULL_SCHEMA}
        return to_json(
            [
                {"name": name, "description": f"Does {name}.", "inputSchema": schema}
                for name, schema in schemas.items()
            ]
        )

    def call_tool(self, request: Request, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        if name not in TOOLS:
            raise RequestError(INVALID_PARAMS, f"Unknown tool: {name!r}")
        return TOOLS[name](request)

    def list_prompts(self) -> list[dict[str, Any]]:
        return [
            {
                "name": name,
                "description": f"Is {name}.",
                "arguments": [{"name": each, "required": True} for each in ARGUMENTS.get(name, [])],
            }
            for name in PROMPTS
        ]

    def get_prompt(self, request: Request, name: str, arguments: Mapping[str, str]) -> dict[str, Any]:
        if name not in PROMPTS:
            raise RequestError(INVALID_PARAMS, f"Unknown prompt: {name!r}")
        return {"messages": [{"role": "user", "content": part} for part in PROMPTS[name](arguments)]}

    def list_resources(self) -> list[dict[str, Any]]:
        return [{"uri": uri, "name": uri, "mimeType": each["mimeType"]} for uri, each in RESOURCES.items()]

    def list_templates(self) -> list[dict[str, Any]]:
        return [{"uriTemplate": TEMPLATE, "name": TEMPLATE, "mimeType": "application/json"}]

    def read_resource(self, request: Request, uri: str) -> dict[str, Any]:
        if uri in RESOURCES:
            return {"contents": [{"uri": uri, **RESOURCES[uri]}]}
        if found := re.fullmatch(r"test://template/([^/]+)/data", uri):
            text = to_json({"id": found[1]})
            return {"contents": [{"uri": uri, "mimeType": "application/json", "text": text}]}
        raise RequestError(INVALID_PARAMS, f"Resource not found: {uri!r}", {"uri": uri})

    def complete(self, reference: Mapping[str, str], argument: Mapping[str, str]) -> dict[str, Any]:
        found = [each for each in ("paris", "park", "party") if each.startswith(argument["value"])]
        return {"completion": {"values": found, "total": len(found), "hasMore": False}}
