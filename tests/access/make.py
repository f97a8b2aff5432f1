"""Creates tokens and reads audit entries for tests, through the tools themselves."""

from __future__ import annotations

from typing import Any

from deepwork.edge.server.application import Application
from deepwork.edge.server.invocation import invoke
from deepwork.edge.server.registry import index_by_name
from deepwork.gates.access.models import ChainedEntry, ChainVerdict, parse_token, verify_chain
from deepwork.gates.access.operations import TokenOperations
from deepwork.gates.access.store import AuditStore
from deepwork.kernel.call import Call


def call_token_tool(app: Application, tool: str, **arguments: Any) -> Any:
    """Call a token tool as the command line does."""
    spec = index_by_name([TokenOperations(app.database)])[tool]
    return invoke(app.database, spec, arguments, Call("local", tool))


def make_token(app: Application, name: str, scope: str = "work", **more: Any) -> tuple[str, str, str]:
    """Create a token; return its text, id and secret."""
    text = call_token_tool(app, "token_create", name=name, scope=scope, **more)["token"]
    parts = parse_token(text)
    assert parts is not None
    return text, *parts


def call_tool_as(app: Application, token: str, tool: str, scope: str = "work", **arguments: Any) -> Any:
    """Call a tool as the holder of a token."""
    call = Call(token, tool, account=token, scope=scope)
    return invoke(app.database, app.registry[tool], arguments, call)


def list_entries(app: Application) -> list[ChainedEntry]:
    """List the audit entries, oldest first."""
    with app.database.reading() as tx:
        return AuditStore(tx).list_newest(account=None, tool=None, since=None, limit=10_000)[::-1]


def list_outcomes(app: Application) -> list[tuple[str, str]]:
    """List the called tools with their outcomes."""
    return [(link.entry.tool, link.entry.outcome) for link in list_entries(app)]


def verify_audit(app: Application) -> ChainVerdict:
    with app.database.reading() as tx:
        return verify_chain(
            AuditStore(tx).iterate_chain(), AuditStore(tx).get_head(), AuditStore(tx).get_key()
        )


def run_sql(app: Application, sql: str, **values: Any) -> int:
    """Execute a statement directly on the database."""
    with app.database.transaction() as tx:
        return tx.execute(sql, **values)
