"""Tokens and records for tests, made through the tools themselves."""

from __future__ import annotations

from typing import Any

from deepwork.access.chain import Verdict, verified
from deepwork.access.models import Link
from deepwork.access.rules import split
from deepwork.access.store import AuditStore
from deepwork.access.tools import TokenTools
from deepwork.database.call import Call
from deepwork.server.house import House
from deepwork.server.invocation import invoke
from deepwork.server.registry import by_name


def ask_tokens(house: House, tool: str, **arguments: Any) -> Any:
    """Call a tool on tokens as the command line does."""
    spec = by_name([TokenTools(house.database)])[tool]
    return invoke(house.database, spec, arguments, Call("local", tool))


def make_token(house: House, name: str, scope: str = "work", **more: Any) -> tuple[str, str, str]:
    """A new token: its text, its id, its secret."""
    text = ask_tokens(house, "token_create", name=name, scope=scope, **more)["token"]
    parts = split(text)
    assert parts is not None
    return text, *parts


def ask_as(house: House, token: str, tool: str, scope: str = "work", **arguments: Any) -> Any:
    """Call a tool as the holder of a token."""
    call = Call(token, tool, account=token, scope=scope)
    return invoke(house.database, house.registry[tool], arguments, call)


def record(house: House) -> list[Link]:
    """What is recorded, oldest first."""
    with house.database.reading() as tx:
        return AuditStore(tx).newest(account=None, tool=None, since=None, limit=10_000)[::-1]


def outcomes(house: House) -> list[tuple[str, str]]:
    """The tools that were called, with what came of it."""
    return [(link.entry.tool, link.entry.outcome) for link in record(house)]


def verdict(house: House) -> Verdict:
    with house.database.reading() as tx:
        return verified(AuditStore(tx).chained(), AuditStore(tx).head())


def run(house: House, sql: str, **values: Any) -> int:
    """A statement behind deepwork's back."""
    with house.database.transaction() as tx:
        return tx.run(sql, **values)
