"""Measures another server for the same tools beside ours: any command that serves them over stdio or HTTP.

Both get the same data by the same calls, and take turns. The store of each is in a folder of its own. A server that
does not flush its writes to disk has less to do, so the writes are measured a second time with both stores on a
memory file system, where a flush costs nothing.
"""

from __future__ import annotations

import shlex
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import TypeVar

from benchmarks.calls import CallFixture
from benchmarks.clients import PYTHON, SERVE, HttpClient, HttpServer, StdioClient
from benchmarks.crowd import Crowd
from benchmarks.http_crowds import SIZE, CrowdFixture
from benchmarks.timing import Effort, Samples, Work, take_turns

OURS = (*PYTHON, *SERVE, ".")
OURS_HTTP = (*OURS, "--transport", "http", "--port", "{port}", "--rate-limit", "0")
MEMORY = Path("/dev/shm")
T = TypeVar("T")

STARTS = ("start to initialize", "start to first tools/call", "start to first tools/call, fresh project")
CROWD_WRITES = tuple(f"{row}, 8 clients" for row in ("heartbeats", "claims", "claim race", "whole tasks"))
CROWD_READS = "reads, 8 clients"
UNFLUSHED = ", without the flush"
SESSION = "opening a session"


def name_rival(row: str) -> str:
    """Name the rival's row beside ours."""
    return f"{row}: rival"


def measure_rival(effort: Effort) -> Samples:
    """Measure starts and single calls over stdio."""
    servers = {"": OURS, "rival": shlex.split(effort.rival)}
    took = _measure_starts(effort, servers)
    with ExitStack() as stack, _make_memory_folder() as memory:
        fixtures: dict[tuple[str, str], CallFixture] = {}
        for where, folder in _list_places(effort.folder, memory):
            for name, command in servers.items():
                server = stack.enter_context(_start(command, folder / f"calls-{name or 'ours'}"))
                fixtures[name, where] = CallFixture(server)
                fixtures[name, where].add_tasks((effort.rounds + 2) * effort.calls)
        work: dict[str, Work] = {}
        for (name, where), fixture in fixtures.items():
            rows = fixture.list_writes() if where else fixture.list_reads() | fixture.list_writes()
            work |= {_name_row(row + where, name): call for row, call in rows.items()}
        return took | take_turns(_put_side_by_side(work), effort.rounds, effort.calls)


def measure_rival_http(effort: Effort) -> Samples:
    """Measure eight HTTP clients at once, per second, and how long opening a session takes."""
    servers = {"": OURS_HTTP, "rival": shlex.split(effort.rival_http)}
    took: Samples = {}
    with ExitStack() as stack, _make_memory_folder() as memory:
        work: dict[str, Callable[[], float]] = {}
        sessions: dict[str, Work] = {}
        for where, folder in _list_places(effort.folder, memory):
            for name, command in servers.items():
                server = _start_http(command, folder / f"http-{name or 'ours'}")
                stack.callback(server.close)
                crowd = Crowd(server.port, SIZE)
                stack.callback(crowd.close)
                fixture = CrowdFixture(
                    crowd, HttpClient(server.port), effort.calls, ("planning", "in_progress")
                )
                rows = fixture.list_rows()
                if where:
                    del rows[CROWD_READS]
                else:
                    sessions[_name_row(SESSION, name)] = partial(_open_session, server.port)
                work |= {_name_row(row + where, name): measure for row, measure in rows.items()}
        took = take_turns(sessions, effort.rounds)
        for _ in range(max(1, effort.rounds // 5)):
            for row, measure in _put_side_by_side(work).items():
                took.setdefault(row, []).append(measure())
    return took


def _measure_starts(effort: Effort, servers: dict[str, Sequence[str]]) -> Samples:
    numbers = count()
    starts: dict[str, Callable[[], StdioClient]] = {}
    for name, command in servers.items():
        project = effort.folder / f"start-{name or 'ours'}"
        fresh = partial(_start_fresh, command, effort.folder, numbers)
        each = (partial(_start, command, project), partial(_start_and_call, command, project), fresh)
        starts |= {_name_row(row, name): start for row, start in zip(STARTS, each, strict=True)}
        _start_and_call(command, project).close()
    took: Samples = {row: [] for row in starts}
    for _ in range(effort.starts):
        for row, start in _put_side_by_side(starts).items():
            began = time.perf_counter()
            server = start()
            took[row].append((time.perf_counter() - began) * 1000)
            server.close()
    return took


def _list_places(disk: Path, memory: Path | None) -> Iterator[tuple[str, Path]]:
    yield "", disk
    if memory:
        yield UNFLUSHED, memory


def _start(command: Sequence[str], folder: Path) -> StdioClient:
    return StdioClient(program=_fill_in(command, folder), folder=folder)


def _start_http(command: Sequence[str], folder: Path) -> HttpServer:
    return HttpServer(program=_fill_in(command, folder), folder=folder)


def _start_and_call(command: Sequence[str], folder: Path) -> StdioClient:
    server = _start(command, folder)
    server.call("agent_list", {})
    return server


def _start_fresh(command: Sequence[str], folder: Path, numbers: Iterator[int]) -> StdioClient:
    return _start_and_call(command, folder / f"fresh-{next(numbers)}")


def _fill_in(command: Sequence[str], folder: Path) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    return [word.replace("{db}", str(folder / "store.db")) for word in command]


def _open_session(port: int) -> None:
    HttpClient(port).close()


def _name_row(row: str, server: str) -> str:
    return name_rival(row) if server else row


def _put_side_by_side(work: dict[str, T]) -> dict[str, T]:
    """Order the rows so that each is measured right after its rival."""
    order = [row for row in work if not row.endswith(name_rival(""))]
    return {row: work[row] for ours in order for row in (name_rival(ours), ours)}


@contextmanager
def _make_memory_folder() -> Iterator[Path | None]:
    """Make a folder on a memory file system; None where there is none."""
    if not MEMORY.is_dir():
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="deepwork-bench-", dir=MEMORY) as folder:
        yield Path(folder)
