"""Hooks of a client that works for `deepwork run`: the runner answers them, so they need no store.

The hook sends the event with the token of the attempt. Whatever the event says, the answer is about the one
agent of that token: nothing is learned from calls, and no other session is looked up.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepwork.kernel.config import Settings
from deepwork.kernel.errors import InvalidInput
from deepwork.views.hooks.context import HookContext
from deepwork.views.hooks.protocol import CLIENTS, EVENTS, SESSION_START, HookEvent

if TYPE_CHECKING:
    from deepwork.delivery.runner.agent_access import Grant

_MAX_ANSWER = 1024 * 1024


def ask_runner(file: str, kind: str, event: HookEvent) -> str:
    """Return the runner's answer; empty if the client need not hear anything."""
    found = json.loads(Path(file).read_bytes())
    sent = {each.name: getattr(event, each.name) for each in fields(event)}
    request = {"token": found["token"], "hook": {"kind": kind, "event": sent}}
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(found["socket"])  # the hook itself ends after a few seconds
        connection.sendall(json.dumps(request).encode() + b"\n")
        with connection.makefile("rb") as answers:
            answer = json.loads(answers.readline(_MAX_ANSWER))
    return str(answer.get("text", ""))


def answer_agent_hook(settings: Settings, asked: Mapping[str, Any], grant: Grant) -> str:
    """Answer the event of an agent's client, in the process that has the store open."""
    kind, given = asked.get("kind"), asked.get("event")
    if kind not in EVENTS or not isinstance(given, dict) or given.get("client") not in CLIENTS:
        raise InvalidInput("This is not the event of a hook.")
    is_repeated = given.get("is_repeated") is True
    event = HookEvent(
        str(given["client"]), grant.attempt_id, str(settings.project_root), "resume", is_repeated=is_repeated
    )
    jobs = () if grant.session_id is None else (grant.session_id,)
    context = HookContext(settings, event)
    context.update_record(lambda record: replace(record, agents=(grant.agent_id,), jobs=jobs))
    if kind == SESSION_START and given.get("source") not in ("resume", "compact"):
        return ""  # its prompt says everything
    from deepwork.views.hooks.dispatch import handle_event  # noqa: PLC0415 - it opens the store

    return handle_event(str(kind), settings, event, is_own_only=True)
