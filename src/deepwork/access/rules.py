"""The scope each call needs, the agents it may act for, and the format of tokens."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from deepwork.access.models import OWNER, Scope
from deepwork.tool_declarations import ToolDeclaration

_RESERVED_NAMES = frozenset({OWNER, "local", "anonymous"})  # callers that have no named token
_TOKEN_NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_TOKEN_ID_PATTERN = re.compile(r"[0-9a-z]{12}")
_TOKEN_PATTERN = re.compile(rf"dw_({_TOKEN_ID_PATTERN.pattern})_([A-Za-z0-9_-]{{43}})")
_PLACEHOLDER_DIGEST = "0" * 64


def get_required_scope(tool: ToolDeclaration, arguments: Mapping[str, Any]) -> Scope:
    """Return the scope that a call of the tool with these arguments needs."""
    rule = tool.when_false
    if rule and arguments.get(rule.argument, rule.default) is False:
        return Scope(rule.scope)
    return Scope(tool.scope)


def is_offered_to(scope: Scope, tool: ToolDeclaration) -> bool:
    """Whether the scope covers any call of the tool."""
    lowest = tool.when_false.scope if tool.when_false else tool.scope
    return scope.covers(Scope(lowest))


def find_acting_agent(tool: ToolDeclaration, arguments: Mapping[str, Any]) -> str | None:
    """Return the id of the agent on whose behalf the call is made, if it names one."""
    agent_id = arguments.get(tool.acts_as) if tool.acts_as else None
    return agent_id if isinstance(agent_id, str) else None


def may_act_for(registered_by: str, caller: str, scope: Scope) -> bool:
    """Return whether a caller may act for an agent: its own, or any with the scope `admin`."""
    return registered_by == caller or scope is Scope.ADMIN


def is_token_name(text: str) -> bool:
    """Return whether a token may have this name; a text that looks like a token may not."""
    return (
        _TOKEN_NAME_PATTERN.fullmatch(text) is not None
        and text not in _RESERVED_NAMES
        and parse_token(text) is None
    )


def format_token(id: str, secret: str) -> str:
    """Format a token as given to its holder."""
    return f"dw_{id}_{secret}"


def parse_token(text: str) -> tuple[str, str] | None:
    """Return the id and the secret of a token; None if it is not a named token."""
    found = _TOKEN_PATTERN.fullmatch(text)
    return (found[1], found[2]) if found else None


def is_token_id(text: str) -> bool:
    """Return whether the text has the format of a token id."""
    return _TOKEN_ID_PATTERN.fullmatch(text) is not None


def hash_secret(secret: str) -> str:
    """Hash a secret. A fast hash is enough, because a secret has 256 random bits."""
    return sha256(secret.encode()).hexdigest()


def matches_secret(secret: str, digest: str | None) -> bool:
    """Compare a secret with its stored digest, in constant time even if there is no digest."""
    return hmac.compare_digest(hash_secret(secret), digest or _PLACEHOLDER_DIGEST)
