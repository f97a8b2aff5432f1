"""Which scope a call needs, in whose name it may be made, and what a token looks like."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from deepwork.access.models import OWNER, Scope

# The one table of scopes. What is read-only needs `read`; everything else stands in one of these two lists,
# and what stands in none needs `admin` until somebody has decided.
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
# Where it depends on an argument: its default, the scope where it is false, and the scope otherwise. Nothing
# but false is taken for false, because a tool may read "true" in more than one spelling.
_DEPENDS: Mapping[str, tuple[str, bool, Scope, Scope]] = {
    "message_get": ("mark_read", True, Scope.READ, Scope.WORK),
    "workflow_update_status": ("force", False, Scope.WORK, Scope.ADMIN),  # sets aside what binds the others
}

# Arguments that say in whose name a call is made. `agent_id` of a tool that only reads says whom it is about.
_ACTORS = ("agent_id", "sender_id")
_OWN_ID = frozenset({"agent_update", "agent_unregister"})

_RESERVED = frozenset({OWNER, "local", "anonymous"})  # callers that have no named token
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_ID = re.compile(r"[0-9a-z]{12}")
_TOKEN = re.compile(rf"dw_({_ID.pattern})_([A-Za-z0-9_-]{{43}})")
_NO_DIGEST = "0" * 64


def needed(tool: str, *, read_only: bool, arguments: Mapping[str, Any]) -> Scope:
    """The scope that this call needs."""
    if read_only or tool not in _DEPENDS:
        return _usual(tool, read_only=read_only)
    name, default, harmless, other = _DEPENDS[tool]
    return harmless if arguments.get(name, default) is False else other


def offered_to(scope: Scope, tool: str, *, read_only: bool) -> bool:
    """Whether there is any call of the tool that this scope covers."""
    if read_only or tool not in _DEPENDS:
        return scope.covers(_usual(tool, read_only=read_only))
    return scope.covers(_DEPENDS[tool][2])


def actors(tool: str, arguments: Mapping[str, Any], *, read_only: bool) -> list[str]:
    """The agents in whose name this call is made."""
    if read_only:
        return []
    names = [*_ACTORS, "id"] if tool in _OWN_ID else _ACTORS
    return [value for name in names if isinstance(value := arguments.get(name), str)]


def may_act_for(registered_by: str, caller: str, scope: Scope) -> bool:
    """Whether a caller may act in the name of an agent: its own, or any with the scope `admin`."""
    return registered_by == caller or scope is Scope.ADMIN


def is_name(text: str) -> bool:
    """Whether a token may have this name; what looks like a token is none."""
    return _NAME.fullmatch(text) is not None and text not in _RESERVED and split(text) is None


def token_text(id: str, secret: str) -> str:
    """A token as its holder keeps it."""
    return f"dw_{id}_{secret}"


def split(text: str) -> tuple[str, str] | None:
    """The id and the secret in a token; None if it is no named token."""
    found = _TOKEN.fullmatch(text)
    return (found[1], found[2]) if found else None


def is_token_id(text: str) -> bool:
    """Whether a token could have this id."""
    return _ID.fullmatch(text) is not None


def digest_of(secret: str) -> str:
    """What is kept of a secret. It has 256 random bits: nobody finds it by trying, however fast."""
    return sha256(secret.encode()).hexdigest()


def is_secret(secret: str, digest: str | None) -> bool:
    """Whether the secret is the one that was kept; takes as long where none was kept."""
    return hmac.compare_digest(digest_of(secret), digest or _NO_DIGEST)


def _usual(tool: str, *, read_only: bool) -> Scope:
    if tool in ADMIN:
        return Scope.ADMIN
    if read_only:
        return Scope.READ
    return Scope.WORK if tool in WORK else Scope.ADMIN
