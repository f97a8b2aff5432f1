"""Measuring: how long work takes, and work that takes turns."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Samples = dict[str, list[float]]
"""What was measured, by name of the row."""
Work = Callable[[], Any]


@dataclass(frozen=True)
class Effort:
    """Where a run may write, and how often it measures."""

    folder: Path
    rounds: int = 15
    calls: int = 20
    starts: int = 9
    rival: str = ""
    """The command of another server for the same tools, over stdio; `{db}` becomes the path of its store."""
    rival_http: str = ""
    """The same over HTTP, at /mcp; `{port}` becomes its port."""

    def make_folder(self, name: str) -> Path:
        made = self.folder / name
        made.mkdir(parents=True)
        return made


def measure_ms(work: Work) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def take_turns(work: Mapping[str, Work], rounds: int, calls: int = 1, warm_up: int = 1) -> Samples:
    """Measure every row `calls` times in each round, so that load on the machine affects all of them."""
    took: Samples = {name: [] for name in work}
    for number in range(warm_up + rounds):
        for name, call in work.items():
            spent = [measure_ms(call) for _ in range(calls)]
            if number >= warm_up:
                took[name] += spent
    return took


def measure_cpu_ms(*words: str, given: bytes = b"") -> float:
    """Measure the processor time of a whole command, which other load on the machine affects least."""
    process = subprocess.Popen(
        [sys.executable, "-P", *words], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    assert process.stdin is not None
    process.stdin.write(given)
    process.stdin.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, f"{' '.join(words)} ended with {process.returncode}"
    return (usage.ru_utime + usage.ru_stime) * 1000


def read_memory_mb(pid: int) -> float:
    """Read how much memory the process occupies."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0
