"""Which process works on a session, and whether it still lives."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def this_process() -> str:
    """A name for this process that no other process, past or present, has."""
    return f"{socket.gethostname()}/{os.getpid()}/{_birth(os.getpid())}"


def is_gone(owner: str) -> bool:
    """Whether that process has ended; of one on another machine we cannot know, so it has not."""
    host, _, rest = owner.rpartition("/")[0].rpartition("/")
    birth = owner.rpartition("/")[2]
    if host != socket.gethostname() or not rest.isdecimal():
        return False
    return _birth(int(rest)) != birth


def _birth(pid: int) -> str:
    """When a process began, as the system counts; empty when there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return stat.rpartition(")")[2].split()[19]
    except OSError:
        return "" if Path("/proc/self").exists() else _birth_elsewhere(pid)


def _birth_elsewhere(pid: int) -> str:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        pass
    return "alive"
