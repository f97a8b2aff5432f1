"""Scopes: which calls a token allows, and for which agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deepwork.kernel.names import CaseInsensitiveEnum
from deepwork.kernel.operations import OperationDeclaration


class Scope(CaseInsensitiveEnum):
    """What a token may do; each scope includes those before it."""

    READ = "read"
    WORK = "work"
    ADMIN = "admin"

    def covers(self, needed: Scope) -> bool:
        """Return whether this scope includes the needed one."""
        return _RANKS[self] >= _RANKS[needed]


_RANKS = {scope: rank for rank, scope in enumerate(Scope)}


def get_required_scope(tool: OperationDeclaration, arguments: Mapping[str, Any]) -> Scope:
    """Return the scope that a call of the tool with these arguments needs."""
    rule = tool.when_false
    if rule and arguments.get(rule.argument, rule.default) is False:
        return Scope(rule.scope)
    return Scope(tool.scope)


def is_offered_to(scope: Scope, tool: OperationDeclaration) -> bool:
    """Whether the scope covers any call of the tool."""
    lowest = tool.when_false.scope if tool.when_false else tool.scope
    return scope.covers(Scope(lowest))


def find_acting_agent(tool: OperationDeclaration, arguments: Mapping[str, Any]) -> str | None:
    """Return the id of the agent on whose behalf the call is made, if it names one."""
    agent_id = arguments.get(tool.acts_as) if tool.acts_as else None
    return agent_id if isinstance(agent_id, str) else None
