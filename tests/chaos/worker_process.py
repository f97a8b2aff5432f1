"""The worker process: reads one order per line, and executes each in a forked process.

Everything is imported first, so that forked processes start within milliseconds and simultaneously: each prints
its pid, waits for the signal to go, and prints its outcome as one line.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import random
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import alembic.command  # noqa: F401 - what a migration needs, imported before the moment that matters
import sqlalchemy  # noqa: F401

from application import call_tool, make_app
from chaos.claimer import claim_all, hold_and_finish
from chaos.ledger import Entry, Ledger
from chaos.writer import Writer
from deepwork.edge.server.application import Application
from deepwork.kernel.errors import DeepworkError
from deepwork.kernel.events.log import Event

A_DAY = 86_400
_PR_SET_PDEATHSIG = 1


@contextlib.contextmanager
def open_store(location: str) -> Iterator[Application]:
    # A long lease: on a slow machine agents would otherwise go offline and emit unexpected events.
    app = make_app(Path.cwd(), location, lease_seconds=A_DAY)
    yield app
    app.close()


def register(location: str, name: str) -> Any:
    with open_store(location) as app:
        return call_tool(app, "agent_register", name=name, runtime="custom")


def prepare(location: str) -> None:
    with open_store(location) as app:
        app.database.engine.prepare()


def write(
    location: str, ledger: str, name: str, seed: int, count: int | None = None, shared: str = ""
) -> int:
    """Write `count` times, or until this process is killed."""
    kept = Ledger(Path(ledger))
    with open_store(location) as app:

        def carry_out(entry: Entry) -> Any:
            # Without a count the test kills this process, and only a key makes it safe to repeat a call.
            key = entry.key if count is None or entry.key.endswith(("0", "2", "4", "6", "8")) else None
            return call_tool(app, entry.tool, key, **entry.arguments)

        writer = Writer(name, kept, carry_out, random.Random(seed), shared)
        writer.resume()
        while count is None or len(kept.entries) < count:
            writer.write()
    kept.close()
    return len(kept.entries)


def write_in_threads(location: str, ledgers: list[str], seed: int) -> None:
    """Write with one thread for each ledger, as a server does, until this process is killed."""
    with open_store(location) as app:

        def write_on(path: Path, chance: random.Random) -> None:
            ask = lambda entry: call_tool(app, entry.tool, entry.key, **entry.arguments)  # noqa: E731
            writer = Writer(path.name, Ledger(path), ask, chance)
            writer.resume()
            while True:
                writer.write()

        app.database.has_many_callers = True
        with ThreadPoolExecutor(len(ledgers)) as threads:
            works = [
                threads.submit(write_on, Path(path), random.Random(seed + n))
                for n, path in enumerate(ledgers)
            ]
            works[0].result()


def call_once(project: str, tool: str, key: str, arguments: dict[str, Any]) -> Any:
    """Call a tool with a key, in a project with its own store."""
    root = Path(project)
    app = make_app(root, str(root / "deepwork.db"), lease_seconds=A_DAY, git_branch="off")
    return call_tool(app, tool, key, **arguments)


def emit(location: str, name: str, count: int, seed: int) -> int:
    """Emit `count` events, 1 to 3 per transaction; after the first, wait until another process emits too."""
    chance, number, is_alone = random.Random(seed), 0, True
    with open_store(location) as app:
        while number < count:
            with app.database.transaction() as tx:
                for _ in range(min(chance.randint(1, 3), count - number)):
                    number += 1
                    tx.emit("chaos:told", {"by": name, "number": number})
            while is_alone:
                is_alone = not _others_emit(app, name)
                time.sleep(0.005)
    return number


def _others_emit(app: Application, name: str) -> bool:
    return any(event.data["by"] != name for event in app.feed.iterate_stored(0) if isinstance(event, Event))


def follow(location: str, upto: int, seconds: float) -> list[tuple[int, str, int]]:
    """Return every event up to number `upto`, as the feed delivers them."""
    seen: list[tuple[int, str, int]] = []
    end = time.monotonic() + seconds
    with open_store(location) as app:
        for event in app.feed.follow(0, should_stop=lambda: time.monotonic() > end):
            assert isinstance(event, Event), event
            seen.append((event.seq, event.data["by"], event.data["number"]))
            if event.seq >= upto:
                break
    return seen


def look(location: str) -> list[Any]:
    """Read everything, then write; return the outcome of each call."""
    app = make_app(Path.cwd(), location, lease_seconds=A_DAY)
    calls: list[Callable[[], Any]] = [
        lambda: call_tool(app, "agent_list", limit=1000)["agents"],
        lambda: [
            call_tool(app, "agent_get", id=agent["id"]) for agent in call_tool(app, "agent_list")["agents"]
        ],
        lambda: _everything_in_all_inboxes(app),
        lambda: [event.seq for event in app.feed.iterate_stored(0) if isinstance(event, Event)],
        lambda: call_tool(app, "agent_register", name="another", runtime="custom")["name"],
    ]
    answers = [outcome_of(call) for call in calls]
    app.close()
    return answers


def outgrow(location: str, limit: int) -> list[Any]:
    """Write until the file size limit is reached, read, raise the limit, and write again."""
    with open_store(location) as app:

        def write_on(tries: int) -> int:
            for number in range(tries):
                call_tool(
                    app, "agent_register", name=f"no {number}", runtime="custom", metadata={"x": "y" * 20_000}
                )
            return tries

        def total() -> Any:
            return call_tool(app, "agent_list")["total"]

        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        refused, before = outcome_of(lambda: write_on(1000)), outcome_of(total)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        return [refused, before, outcome_of(lambda: write_on(3)), outcome_of(total)]


def outcome_of(work: Callable[[], Any]) -> dict[str, Any]:
    """Return the answer, a deepwork error, or the traceback of any other error."""
    try:
        return {"answer": work()}
    except DeepworkError as error:
        return {"error": error.to_dict()}
    except Exception:  # noqa: BLE001 - any other error is a failure that the test reports
        return {"fault": traceback.format_exc()}


def _everything_in_all_inboxes(app: Application) -> list[Any]:
    agents = call_tool(app, "agent_list", limit=1000)["agents"]
    return [
        call_tool(app, "message_list", agent_id=each["id"], status="all", limit=200)["messages"]
        for each in agents
    ]


ORDERS: dict[str, Callable[..., Any]] = {
    order.__name__: order
    for order in (
        register,
        prepare,
        write,
        write_in_threads,
        call_once,
        emit,
        follow,
        look,
        outgrow,
        claim_all,
        hold_and_finish,
    )
}


def main() -> None:
    _end_with_parent()
    orders = open(0, "rb", buffering=0)  # noqa: SIM115 - unbuffered, because parent and child read it in turn
    while line := orders.readline():
        if b'"pipes"' in line:
            _fork(*json.loads(line)["pipes"])
            continue
        if b'"do"' not in line:  # the signal to go, or its end, for a child that was killed before it read it
            continue
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            _end_with_parent()
            _send({"pid": os.getpid()})
            orders.readline()
            _send(outcome_of(lambda: ORDERS[order.pop("do")](**order)))  # noqa: B023 - called at once
            os._exit(0)
        _, status = os.waitpid(child, 0)
        _send({"signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None})


def _fork(orders: str, said: str) -> None:
    """Start another worker, with these pipes as its standard input and output."""
    child = os.fork()
    if child == 0:
        _end_with_parent()
        # In this order, as the other side: opening a pipe waits for that.
        for pipe, mode, number in ((orders, os.O_RDONLY, 0), (said, os.O_WRONLY, 1)):
            opened = os.open(pipe, mode)
            os.dup2(opened, number)
            os.close(opened)
    else:
        _send({"pid": child})


def _end_with_parent() -> None:
    """Ask to be killed when the parent ends: a killed test run must leave nothing that claims or writes forever."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _send(line: dict[str, Any]) -> None:
    # A newline first, so that a line cut short by a kill does not damage the next one.
    os.write(1, b"\n" + json.dumps(line).encode() + b"\n")


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):  # nobody waits for the outcome of a stopped run
        main()
    os._exit(0)  # there is nothing to clean up
