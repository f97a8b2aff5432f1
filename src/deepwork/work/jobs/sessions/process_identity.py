"""Identifies the process that works on a session, and detects whether it has exited."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def get_process_identity() -> str:
    """Return `host/pid/start time`, unique even if the system reuses the pid."""
    return f"{socket.gethostname()}/{os.getpid()}/{_read_start_time(os.getpid())}"


def has_exited(owner: str) -> bool:
    """Whether the process has exited; assumed to be running if it is on another machine."""
    host, _, pid = owner.rpartition("/")[0].rpartition("/")
    start_time = owner.rpartition("/")[2]
    if host != socket.gethostname() or not pid.isdecimal():
        return False
    return _read_start_time(int(pid)) != start_time


def _read_start_time(pid: int) -> str:
    """Read the start time of a process in clock ticks since boot; empty if it does not exist."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return stat.rpartition(")")[2].split()[19]
    except OSError:
        return "" if Path("/proc/self").exists() else _probe_process(pid)


def _probe_process(pid: int) -> str:
    """Return a constant if the process exists: without /proc its start time is not known."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        pass
    return "alive"
