"""Tokens and records for tests, made through the tools themselves."""

from __future__ import annotations

from typing import Any

from deepwork.access.chain import Verdict, verified
from deepwork.access.models import Link
from deepwork.access.rules import split
from deepwork.access.store import AuditStore
from deepwork.access.tools import TokenTools
from deepwork.database.call import Call
from deepwork.server.application import Application
from deepwork.server.invocation import invoke
from deepwork.server.registry import by_name


def ask_tokens(app: Application, tool: str, **arguments: Any) -> Any:
    """Call a tool on tokens as the command line does."""
    spec = by_name([TokenTools(app.database)])[tool]
    return invoke(app.database, spec, arguments, Call("local", tool))


def make_token(app: Application, name: str, scope: str = "work", **more: Any) -> tuple[str, str, str]:
    """A new token: its text, its id, its secret."""
    text = ask_tokens(app, "token_create", name=name, scope=scope, **more)["token"]
    parts = split(text)
    assert parts is not None
    return text, *parts


def ask_as(app: Application, token: str, tool: str, scope: str = "work", **arguments: Any) -> Any:
    """Call a tool as the holder of a token."""
    call = Call(token, tool, account=token, scope=scope)
    return invoke(app.database, app.registry[tool], arguments, call)


def record(app: Application) -> list[Link]:
    """What is recorded, oldest first."""
    with app.database.reading() as tx:
        return AuditStore(tx).newest(account=None, tool=None, since=None, limit=10_000)[::-1]


def outcomes(app: Application) -> list[tuple[str, str]]:
    """The tools that were called, with what came of it."""
    return [(link.entry.tool, link.entry.outcome) for link in record(app)]


def verdict(app: Application) -> Verdict:
    with app.database.reading() as tx:
        return verified(AuditStore(tx).chained(), AuditStore(tx).head())


def run(app: Application, sql: str, **values: Any) -> int:
    """A statement behind deepwork's back."""
    with app.database.transaction() as tx:
        return tx.run(sql, **values)
