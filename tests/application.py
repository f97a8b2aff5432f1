"""A whole deepwork for a test: real databases, real tools, and a clock to turn."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NoReturn

import pytest

from deepwork.config import load_settings
from deepwork.database.call import Call
from deepwork.database.engine import open_engine
from deepwork.events.log import Event, EventStore
from deepwork.server.application import Application
from deepwork.server.invocation import invoke

NOW = 1_800_000_000_000
LEASE_MS = 90_000


class Clock:
    """Time that passes only when told to, in milliseconds."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> int:
        return self.now

    def advance(self, *, seconds: float) -> None:
        self.now += int(seconds * 1000)


def make_app(folder: Path, location: str, clock: Clock | None = None, **flags: Any) -> Application:
    """The parts on this database, with a project in this folder."""
    return Application(load_settings(folder, {"database": location, **flags}, environment={}), clock)


def ask(app: Application, tool: str, key: str | None = None, caller: str = "local", **arguments: Any) -> Any:
    """Call a tool as a front door would, checks and idempotency included."""
    return invoke(app.database, app.registry[tool], arguments, Call(caller, tool, key, account=caller))


def events(app: Application, since: int = 0) -> list[Event]:
    """What has been told."""
    with app.database.reading() as tx:
        return EventStore(tx).after(since, 10_000)


def told(app: Application) -> list[str]:
    """The names of what has been told, in order."""
    return [event.type for event in events(app)]


def clean(url: str) -> None:
    """Empty a PostgreSQL database, making its tables if it is new."""
    import psycopg

    engine = open_engine(url)
    engine.prepare()
    engine.close()
    tables = (
        "messages, inboxes, agents, leases, lost_leases, events, idempotency_keys, job_sessions, passed_reviews, "
        "plans, plan_tasks, plan_dependencies, plan_claims, checkpoints, plan_history, plan_words, templates, "
        "repositories, workspaces, tokens, audit, tracked_workflows, phases, tracked_tasks, decisions, issues, "
        "milestones, watches, changed_files"
    )
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"TRUNCATE {tables}")
        connection.execute("UPDATE event_sequence SET last_seq = 0")
        connection.execute("UPDATE audit_head SET seq = 0, chain = ''")


def size(answer: Any) -> int:
    """How many bytes an answer has on the wire."""
    return len(json.dumps(answer).encode())


def leave_out(reason: str) -> NoReturn:
    """Leave a test out because this machine lacks something; where the run must be complete, fail instead."""
    if os.environ.get("DEEPWORK_TESTS_COMPLETE"):
        pytest.fail(f"{reason}, and this run may leave nothing out.")
    pytest.skip(reason)
