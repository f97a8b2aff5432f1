"""The scope each call needs, the agents it may act for, and the format of tokens."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from deepwork.access.models import OWNER, Scope

# Read-only tools need the scope `read`. Every other tool belongs in one of these two lists;
# a tool in neither needs `admin`.
WORK = frozenset(
    {
        "abandon_task", "abort_workflow", "agent_heartbeat", "agent_register", "agent_unregister",
        "agent_update", "checkpoint_add", "complete_phase", "complete_task", "complete_workflow",
        "finished_step", "get_review_instructions", "go_to_step", "log_decision", "log_issue",
        "log_milestone", "mark_review_passed", "message_archive", "message_broadcast", "message_get",
        "message_mark_read", "message_send", "resolve_issue", "start_phase", "start_task",
        "start_workflow", "task_assign_workspace", "task_claim", "task_release", "task_replan",
        "task_set_plan", "task_update_status", "template_apply", "template_create", "workflow_add_task",
        "workflow_create", "workflow_remove_task", "workflow_replan", "workflow_set_parallelism",
        "workflow_set_plan", "workflow_update_status", "workspace_create", "workspace_update",
    }
)  # fmt: skip
ADMIN = frozenset({"repository_register", "token_create", "token_list", "token_revoke"})
# Scopes that depend on an argument: its name, its default, the scope if it is false, and otherwise.
# Only a literal false counts as false, because a tool may accept several spellings of "true".
_SCOPE_BY_ARGUMENT: Mapping[str, tuple[str, bool, Scope, Scope]] = {
    "message_get": ("mark_read", True, Scope.READ, Scope.WORK),
    "workflow_update_status": (
        "force",
        False,
        Scope.WORK,
        Scope.ADMIN,
    ),  # overrides the rules for everyone else
}

# Arguments that name the acting agent. In a read-only tool, `agent_id` is only the subject of the query.
_ACTOR_ARGUMENTS = ("agent_id", "sender_id")
_OWN_ID = frozenset({"agent_update", "agent_unregister"})

_RESERVED = frozenset({OWNER, "local", "anonymous"})  # callers that have no named token
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_ID = re.compile(r"[0-9a-z]{12}")
_TOKEN = re.compile(rf"dw_({_ID.pattern})_([A-Za-z0-9_-]{{43}})")
_NO_DIGEST = "0" * 64


def get_required_scope(tool: str, *, read_only: bool, arguments: Mapping[str, Any]) -> Scope:
    """Return the scope that this call needs."""
    if read_only or tool not in _SCOPE_BY_ARGUMENT:
        return _get_default_scope(tool, read_only=read_only)
    name, default, harmless, other = _SCOPE_BY_ARGUMENT[tool]
    return harmless if arguments.get(name, default) is False else other


def is_offered_to(scope: Scope, tool: str, *, read_only: bool) -> bool:
    """Return whether the scope allows at least some calls of the tool."""
    if read_only or tool not in _SCOPE_BY_ARGUMENT:
        return scope.covers(_get_default_scope(tool, read_only=read_only))
    return scope.covers(_SCOPE_BY_ARGUMENT[tool][2])


def list_acting_agents(tool: str, arguments: Mapping[str, Any], *, read_only: bool) -> list[str]:
    """List the ids of the agents that this call acts for."""
    if read_only:
        return []
    names = [*_ACTOR_ARGUMENTS, "id"] if tool in _OWN_ID else _ACTOR_ARGUMENTS
    return [value for name in names if isinstance(value := arguments.get(name), str)]


def may_act_for(registered_by: str, caller: str, scope: Scope) -> bool:
    """Return whether a caller may act for an agent: its own, or any with the scope `admin`."""
    return registered_by == caller or scope is Scope.ADMIN


def is_token_name(text: str) -> bool:
    """Return whether a token may have this name; a text that looks like a token may not."""
    return _NAME.fullmatch(text) is not None and text not in _RESERVED and parse_token(text) is None


def format_token(id: str, secret: str) -> str:
    """Format a token as given to its holder."""
    return f"dw_{id}_{secret}"


def parse_token(text: str) -> tuple[str, str] | None:
    """Return the id and the secret of a token; None if it is not a named token."""
    found = _TOKEN.fullmatch(text)
    return (found[1], found[2]) if found else None


def is_token_id(text: str) -> bool:
    """Return whether the text has the format of a token id."""
    return _ID.fullmatch(text) is not None


def hash_secret(secret: str) -> str:
    """Hash a secret. A fast hash is enough, because a secret has 256 random bits."""
    return sha256(secret.encode()).hexdigest()


def matches_secret(secret: str, digest: str | None) -> bool:
    """Compare a secret with its stored digest, in constant time even if there is no digest."""
    return hmac.compare_digest(hash_secret(secret), digest or _NO_DIGEST)


def _get_default_scope(tool: str, *, read_only: bool) -> Scope:
    if tool in ADMIN:
        return Scope.ADMIN
    if read_only:
        return Scope.READ
    return Scope.WORK if tool in WORK else Scope.ADMIN
