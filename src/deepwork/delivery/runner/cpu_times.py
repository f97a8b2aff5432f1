"""The CPU time of whole process trees, all read in one pass: whether an agent that says nothing works."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from deepwork.kernel.supervision import supervisor

_PROC = "/proc"
_MAX_AGE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """The processes of this machine at one moment: children and milliseconds of CPU, by pid."""

    children: dict[int, list[int]] = field(default_factory=dict)
    milliseconds: dict[int, int] = field(default_factory=dict)

    @classmethod
    def read(cls) -> CpuTimes:
        """Return the times of all processes, at most two seconds old: fifty agents ask, one after the other.

        Nothing is known on a system without /proc.
        """
        return _read_once(int(time.monotonic() / _MAX_AGE_SECONDS))

    @classmethod
    def read_now(cls) -> CpuTimes:
        """Return the times of all processes as they are now."""
        times = cls()
        if not Path(_PROC, "self/stat").exists():
            return times
        milliseconds_per_tick = 1000 // os.sysconf("SC_CLK_TCK")
        for name in os.listdir(_PROC):  # noqa: PTH208 (hundreds of names, often)
            if name.isdigit() and (words := _read_stat(name)):
                # With the times of children that were waited for, so that the sum never falls.
                times.milliseconds[int(name)] = sum(map(int, words[11:15])) * milliseconds_per_tick
                times.children.setdefault(int(words[1]), []).append(int(name))
        return times

    def measure_tree(self, root: int) -> int | None:
        """Return what a process and its descendants used, also those that have ended; None if unknown."""
        if root not in self.milliseconds:
            return None
        total, waiting = 0, [root]
        while waiting:
            pid = waiting.pop()
            total += self.milliseconds[pid]
            waiting += self.children.get(pid, ())
        return total


@lru_cache(maxsize=1)
def _read_once(_moment: int) -> CpuTimes:
    return CpuTimes.read_now()


def _read_stat(name: str) -> list[bytes]:
    """Return the words of a process's state after its name, which may contain anything; also of zombies."""
    return supervisor.read_file(f"{_PROC}/{name}/stat").rpartition(b")")[2].split()
