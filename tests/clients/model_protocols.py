"""How the four vendors' protocols carry a text, a tool call, a limit and an overload."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

Step = Mapping[str, Any]
Tokens = Mapping[str, int]
SHELL_TOOLS = ("Bash", "exec_command", "shell", "shell_command", "run_shell_command", "bash")

OPENAI_DENIED = {
    "error": {
        "message": "Incorrect API key provided.",
        "type": "invalid_request_error",
        "code": "invalid_api_key",
    }
}


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes


class ModelProtocol(Protocol):
    name: str

    def list_tools(self, request: dict[str, Any]) -> list[str]: ...
    def find_model(self, path: str, request: dict[str, Any]) -> str: ...
    def answer(
        self, request: dict[str, Any], step: Step, tokens: Tokens, path: str, number: int
    ) -> Reply: ...


def find_protocol(path: str) -> ModelProtocol | None:
    plain = urlsplit(path).path
    if plain.endswith("/v1/messages"):
        return AnthropicMessages()
    if plain.endswith("/responses"):
        return OpenAIResponses()
    if plain.endswith((":streamGenerateContent", ":generateContent")):
        return GeminiContent()
    if plain.endswith("/chat/completions"):
        return ChatCompletions()
    return None


def choose_call(step: Step, offered: list[str]) -> tuple[str, dict[str, Any]]:
    """Say which tool a step calls, and with what; a shell command goes to the client's own shell tool."""
    if "mcp" in step:  # clients put the server's name before the tool's, each in its own way
        name = next((name for name in offered if "deepwork" in name and name.endswith(step["mcp"])), None)
        assert name, f"no {step['mcp']} among {offered}"
        return name, step.get("input", {})
    shell = next((name for name in SHELL_TOOLS if name in offered), None)
    assert shell, f"no shell tool among {offered}"
    command = step["shell"]
    if shell == "exec_command":
        return shell, {"cmd": command}
    if shell == "shell":
        return shell, {"command": ["bash", "-c", command]}
    return shell, {"command": command, "description": "Run the command"}


def invent_value(schema: Mapping[str, Any]) -> Any:
    """Make up a value that follows a JSON schema, for requests that want one: Gemini asks which model to use."""
    if "enum" in schema:
        return schema["enum"][0]
    if schema["type"].lower() == "object":
        return {name: invent_value(inner) for name, inner in schema["properties"].items()}
    return {"string": "simple", "integer": 1, "number": 1, "boolean": False, "array": []}[
        schema["type"].lower()
    ]


def send_json(status: int, body: Any, headers: Mapping[str, str] | None = None) -> Reply:
    return Reply(status, {"content-type": "application/json", **(headers or {})}, json.dumps(body).encode())


def send_events(events: list[dict[str, Any]], *, named: bool = True, done: str = "") -> Reply:
    """Send server-sent events; Anthropic and OpenAI name each by its type."""
    lines = [
        (f"event: {event['type']}\n" if named else "") + f"data: {json.dumps(event)}\n\n" for event in events
    ]
    return Reply(200, {"content-type": "text/event-stream"}, ("".join(lines) + done).encode())


class AnthropicMessages:
    name = "anthropic"

    def list_tools(self, request: dict[str, Any]) -> list[str]:
        return [tool["name"] for tool in request.get("tools") or []]

    def find_model(self, path: str, request: dict[str, Any]) -> str:
        return str(request["model"])

    def answer(self, request: dict[str, Any], step: Step, tokens: Tokens, path: str, number: int) -> Reply:
        if "limit" in step:
            return self._limit(step["limit"])
        if "overloaded" in step:
            return send_json(529, _anthropic_error("overloaded_error", "Overloaded"))
        if "denied" in step:
            return send_json(401, _anthropic_error("authentication_error", "invalid x-api-key"))
        block, reason = self._build_block(request, step, number)
        usage = {
            "input_tokens": tokens["input"], "cache_read_input_tokens": tokens["cached"],
            "cache_creation_input_tokens": 0, "output_tokens": tokens["output"],
        }  # fmt: skip
        message = {
            "id": f"msg_{number:04}", "type": "message", "role": "assistant", "model": request["model"],
            "content": [], "stop_reason": None, "stop_sequence": None, "usage": {**usage, "output_tokens": 1},
        }  # fmt: skip
        if not request.get("stream"):
            return send_json(200, {**message, "content": [block], "stop_reason": reason, "usage": usage})
        return send_events(
            [
                {"type": "message_start", "message": message},
                *_list_block_events(block),
                {
                    "type": "message_delta",
                    "delta": {"stop_reason": reason, "stop_sequence": None},
                    "usage": usage,
                },
                {"type": "message_stop"},
            ]
        )

    def _build_block(self, request: dict[str, Any], step: Step, number: int) -> tuple[dict[str, Any], str]:
        if "say" in step:
            return {"type": "text", "text": step["say"]}, "end_turn"
        name, arguments = choose_call(step, self.list_tools(request))
        return {"type": "tool_use", "id": f"toolu_{number:04}", "name": name, "input": arguments}, "tool_use"

    def _limit(self, seconds: int) -> Reply:
        resets = int(time.time()) + seconds
        headers = {
            "retry-after": str(seconds),
            "anthropic-ratelimit-unified-status": "rejected",
            "anthropic-ratelimit-unified-reset": str(resets),
            "anthropic-ratelimit-unified-representative-claim": "five_hour",
            "anthropic-ratelimit-unified-5h-status": "rejected",
            "anthropic-ratelimit-unified-5h-reset": str(resets),
            "anthropic-ratelimit-unified-5h-utilization": "1.0",
            "x-should-retry": "false",
        }
        return send_json(
            429, _anthropic_error("rate_limit_error", "This request would exceed your rate limit."), headers
        )


def _anthropic_error(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_0001"}


def _list_block_events(block: dict[str, Any]) -> list[dict[str, Any]]:
    if block["type"] == "text":
        empty: dict[str, Any] = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": block["text"]}
    else:
        empty = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    return [
        {"type": "content_block_start", "index": 0, "content_block": empty},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
    ]


class OpenAIResponses:
    name = "openai-responses"

    def list_tools(self, request: dict[str, Any]) -> list[str]:
        """List its tools; Codex tells newer models of them in the conversation, grouped."""
        told = [
            tool for item in request["input"] if item["type"] == "additional_tools" for tool in item["tools"]
        ]
        flat = [
            inner for tool in [*(request.get("tools") or []), *told] for inner in tool.get("tools", [tool])
        ]
        return [str(tool.get("name") or tool["type"]) for tool in flat]

    def find_model(self, path: str, request: dict[str, Any]) -> str:
        return str(request["model"])

    def answer(self, request: dict[str, Any], step: Step, tokens: Tokens, path: str, number: int) -> Reply:
        if "limit" in step:
            seconds = int(step["limit"])
            error = {
                "type": "usage_limit_reached", "message": "The usage limit has been reached", "plan_type": "plus",
                "resets_at": int(time.time()) + seconds, "resets_in_seconds": seconds,
            }  # fmt: skip
            return send_json(429, {"error": error}, {"retry-after": str(seconds)})
        if "overloaded" in step:
            error = {
                "type": "server_error",
                "code": "server_is_overloaded",
                "message": "Our servers are overloaded.",
            }
            return send_json(529, {"error": error})
        if "denied" in step:
            return send_json(401, OPENAI_DENIED)
        item = self._build_item(request, step, number)
        usage = {
            "input_tokens": tokens["input"] + tokens["cached"],
            "input_tokens_details": {"cached_tokens": tokens["cached"]},
            "output_tokens": tokens["output"],
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": sum(tokens.values()),
        }
        head = {"id": f"resp_{number:04}", "object": "response", "model": request["model"], "output": []}
        return send_events(
            [
                {"type": "response.created", "response": {**head, "status": "in_progress"}},
                {
                    "type": "response.output_item.added",
                    "output_index": 0,
                    "item": {**item, "status": "in_progress"},
                },
                {
                    "type": "response.output_item.done",
                    "output_index": 0,
                    "item": {**item, "status": "completed"},
                },
                {
                    "type": "response.completed",
                    "response": {**head, "status": "completed", "output": [item], "usage": usage},
                },
            ]
        )

    def _build_item(self, request: dict[str, Any], step: Step, number: int) -> dict[str, Any]:
        if "say" in step:
            text = {"type": "output_text", "text": step["say"], "annotations": []}
            return {"type": "message", "id": f"item_{number:04}", "role": "assistant", "content": [text]}
        call = {"id": f"item_{number:04}", "call_id": f"call_{number:04}"}
        offered = self.list_tools(request)
        if "exec" in offered:  # newer models write JavaScript that calls the tools
            name, arguments = choose_call(step, ["exec_command", f"mcp__deepwork__{step.get('mcp')}"])
            source = f"text(await tools.{name}({json.dumps(arguments)}))"
            return {**call, "type": "custom_tool_call", "name": "exec", "input": source}
        name, arguments = choose_call(step, offered)
        return {**call, "type": "function_call", "name": name, "arguments": json.dumps(arguments)}


class GeminiContent:
    name = "gemini"

    def list_tools(self, request: dict[str, Any]) -> list[str]:
        groups = request.get("tools") or []
        return [tool["name"] for group in groups for tool in group.get("functionDeclarations") or []]

    def find_model(self, path: str, request: dict[str, Any]) -> str:
        return urlsplit(path).path.rpartition("/")[2].partition(":")[0]

    def answer(self, request: dict[str, Any], step: Step, tokens: Tokens, path: str, number: int) -> Reply:
        if "limit" in step:
            return self._limit(step["limit"])
        if "overloaded" in step:
            message = "The model is overloaded. Please try again later."
            return send_json(503, {"error": {"code": 503, "message": message, "status": "UNAVAILABLE"}})
        if "denied" in step:
            message = "API key not valid. Please pass a valid API key."
            return send_json(400, {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}})
        schema = (request.get("generationConfig") or {}).get("responseJsonSchema")
        part: dict[str, Any] = {"text": json.dumps(invent_value(schema)) if schema else step.get("say")}
        if "say" not in step:
            name, arguments = choose_call(step, self.list_tools(request))
            part = {"functionCall": {"id": f"call_{number:04}", "name": name, "args": arguments}}
        chunk = {
            "candidates": [
                {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
            ],
            "usageMetadata": {
                "promptTokenCount": tokens["input"] + tokens["cached"],
                "cachedContentTokenCount": tokens["cached"],
                "candidatesTokenCount": tokens["output"],
                "totalTokenCount": sum(tokens.values()),
            },
            "modelVersion": self.find_model(path, request),
            "responseId": f"response_{number:04}",
        }
        return send_events([chunk], named=False) if "stream" in path else send_json(200, chunk)

    def _limit(self, seconds: int) -> Reply:
        details = [
            {
                "@type": "type.googleapis.com/google.rpc.QuotaFailure",
                "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel", "quotaValue": "1000"}],
            },
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{seconds}s"},
        ]
        message = f"You exceeded your current quota. Please retry in {seconds}s."
        return send_json(
            429,
            {"error": {"code": 429, "message": message, "status": "RESOURCE_EXHAUSTED", "details": details}},
        )


class ChatCompletions:
    name = "openai-chat"

    def list_tools(self, request: dict[str, Any]) -> list[str]:
        return [tool["function"]["name"] for tool in request.get("tools") or []]

    def find_model(self, path: str, request: dict[str, Any]) -> str:
        return str(request["model"])

    def answer(self, request: dict[str, Any], step: Step, tokens: Tokens, path: str, number: int) -> Reply:
        if "limit" in step:
            error = {
                "message": "Rate limit reached for requests",
                "type": "requests",
                "code": "rate_limit_exceeded",
            }
            return send_json(429, {"error": error}, {"retry-after": str(step["limit"])})
        if "overloaded" in step:
            return send_json(
                529, {"error": {"message": "Overloaded", "type": "server_error", "code": "overloaded"}}
            )
        if "denied" in step:
            return send_json(401, OPENAI_DENIED)
        delta, reason = self._build_delta(request, step, number)
        usage = {
            "prompt_tokens": tokens["input"] + tokens["cached"],
            "prompt_tokens_details": {"cached_tokens": tokens["cached"]},
            "completion_tokens": tokens["output"],
            "total_tokens": sum(tokens.values()),
        }
        head = {"id": f"chat_{number:04}", "created": 0, "model": request["model"]}
        if not request.get("stream"):
            choice = {"index": 0, "message": delta, "finish_reason": reason}
            return send_json(200, {**head, "object": "chat.completion", "choices": [choice], "usage": usage})
        chunk = {**head, "object": "chat.completion.chunk"}
        return send_events(
            [
                {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
                {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage},
            ],
            named=False,
            done="data: [DONE]\n\n",
        )

    def _build_delta(self, request: dict[str, Any], step: Step, number: int) -> tuple[dict[str, Any], str]:
        if "say" in step:
            return {"role": "assistant", "content": step["say"]}, "stop"
        name, arguments = choose_call(step, self.list_tools(request))
        call = {
            "index": 0, "id": f"call_{number:04}", "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }  # fmt: skip
        return {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
