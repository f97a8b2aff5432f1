"""Measures starts: from starting a server process to its answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

from benchmarks.clients import BARE, RAW, SERVE, StdioClient
from benchmarks.timing import Effort, Samples


def measure_starts(effort: Effort) -> Samples:
    """Measure from starting the process to the answer; the time it takes to end is not measured."""
    project = effort.make_folder("starts")
    fresh = (effort.make_folder(f"fresh-{number}") for number in count())
    starts: dict[str, Callable[[], StdioClient]] = {
        "raw start": partial(StdioClient, RAW),
        "echo start": partial(StdioClient, BARE),
        "start to initialize": partial(StdioClient, *SERVE, str(project)),
        "start to first tools/call": lambda: _start_and_call(project),
        "start to first tools/call, fresh project": lambda: _start_and_call(next(fresh)),
    }
    took: Samples = {name: [] for name in starts}
    _start_and_call(project).close()
    for _ in range(effort.starts):
        for name, start in starts.items():
            began = time.perf_counter()
            server = start()
            took[name].append((time.perf_counter() - began) * 1000)
            server.close()
    return took


def _start_and_call(project: Path) -> StdioClient:
    client = StdioClient(*SERVE, str(project))
    client.call("agent_list", {})
    return client
