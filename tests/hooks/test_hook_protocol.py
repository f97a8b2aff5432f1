"""Events of each client are parsed, and answers have the format that client expects."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deepwork.kernel.errors import InvalidInput
from deepwork.views.hooks.protocol import (
    CLIENTS,
    EVENTS,
    MAX_INPUT,
    STOP,
    TOOL_USE,
    parse_event,
    render_block,
    render_context,
)
from hooks.make import build_event

SAID = {"id": "ag_1", "name": "Ada", "status": "online"}
AS_TEXT = json.dumps(SAID)


@pytest.mark.parametrize(
    "told",
    [
        {"tool_name": "mcp__deepwork__agent_register", "tool_response": [{"type": "text", "text": AS_TEXT}]},
        {"tool_name": "mcp__deepwork__agent_register", "tool_response": AS_TEXT},
        {"tool_name": "mcp__plugin_deepwork_deepwork__agent_register", "tool_response": SAID},
        {
            "tool_name": "mcp__deepwork__agent_register",
            "tool_response": {"content": [{"type": "text", "text": AS_TEXT}], "structuredContent": SAID},
        },
        {
            "tool_name": "mcp_deepwork_agent_register",
            "tool_response": {"llmContent": [{"text": AS_TEXT}], "returnDisplay": AS_TEXT},
        },
        {
            "tool_name": "agent_register",
            "mcp_context": {"server_name": "deepwork", "tool_name": "agent_register"},
            "tool_response": {"llmContent": [{"text": AS_TEXT}]},
        },
    ],
)
def test_a_deepwork_answer_is_parsed_from_every_client_format(told: dict[str, Any]):
    heard = parse_event("gemini", build_event(tool_input={"name": "Ada"}, **told))

    assert (heard.tool, heard.arguments, heard.answer) == ("agent_register", {"name": "Ada"}, SAID)


@pytest.mark.parametrize("name", ["Bash", "mcp__github__agent_register", "mcp_deepwork", "mcp__deepwork", ""])
def test_calls_of_other_tools_are_ignored(name: str):
    heard = parse_event("codex", build_event(tool_name=name, tool_input={"id": "x"}, tool_response=SAID))

    assert (heard.tool, heard.arguments, heard.answer) == ("", {}, {})


def test_only_session_and_directory_are_read_from_an_oversized_event():
    content = build_event("s9", "/a/place", tool_name="Read", tool_response="x" * MAX_INPUT)

    heard = parse_event("claude-code", content)

    assert (heard.session_id, heard.cwd, heard.tool) == ("s9", "/a/place", "")


def test_tool_input_does_not_override_the_session_of_an_oversized_event():
    given = {"session_id": "theirs", "cwd": "/elsewhere", "agent_id": "sub-9"}
    content = build_event("s9", "/a/place", tool_name="Bash", tool_input=given, tool_response="x" * MAX_INPUT)

    heard = parse_event("claude-code", content)

    assert (heard.session_id, heard.cwd, heard.subagent) == ("s9", "/a/place", "")


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"\xff", b'{"cwd": "."}', b'{"session_id": 3}', b"[" * 9999]
)
def test_invalid_events_are_refused(content: bytes):
    with pytest.raises(InvalidInput):
        parse_event("claude-code", content)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", EVENTS)
def test_context_is_rendered_with_the_clients_name_of_the_event(client: str, name: str):
    answer = json.loads(render_context(client, name, "Look."))

    assert answer == {
        "hookSpecificOutput": {"hookEventName": CLIENTS[client].events[name], "additionalContext": "Look."}
    }


def test_gemini_denies_where_others_block():
    assert json.loads(render_block("claude-code", "Why.")) == {"decision": "block", "reason": "Why."}
    assert json.loads(render_block("codex", "Why.")) == {"decision": "block", "reason": "Why."}
    assert json.loads(render_block("gemini", "Why.")) == {"decision": "deny", "reason": "Why."}
    assert (CLIENTS["gemini"].events[TOOL_USE], CLIENTS["gemini"].events[STOP]) == ("AfterTool", "AfterAgent")
