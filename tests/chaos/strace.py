"""Watching the system calls of a running process, and ending it at one of them."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from application import leave_out
from chaos.crew import Outcome, Worker

CHANGES = "pwrite64,fsync,fdatasync,ftruncate,unlink,rename"
"""The calls between which a file on disk can be half done."""

_CALL = re.compile(r"^\d+\s+(\w+)\(")


@contextmanager
def attached(process: int, trace: Path, *options: str) -> Iterator[None]:
    """Watch a process, all of its threads, while the block runs."""
    command = ["strace", "-f", "-y", "-o", str(trace), *options, "-p", str(process)]
    strace = subprocess.Popen(command, stderr=subprocess.PIPE)
    assert strace.stderr is not None
    # It says so once it holds every thread that is there.
    said = strace.stderr.readline()
    if b"Operation not permitted" in said:  # by kernel.yama.ptrace_scope, or in a container
        strace.communicate()
        leave_out("strace may not attach to a running process (see kernel.yama.ptrace_scope)")
    assert b"attached" in said, said
    try:
        yield
    finally:
        strace.terminate()
        strace.communicate(timeout=120)


def changes(worker: Worker, trace: Path) -> Counter[str]:
    """Let a worker that waits go; how often it made each call that changes a file."""
    outcome = _watched(worker, trace, f"trace={CHANGES}")
    assert outcome.is_well, outcome
    return Counter(found[1] for line in trace.read_text().splitlines() if (found := _CALL.match(line)))


def killed_at(worker: Worker, trace: Path, call: str, number: int) -> Outcome:
    """Let a worker that waits go, and kill -9 it as it begins its call of this number."""
    return _watched(worker, trace, f"trace={call}", "-e", f"inject={call}:signal=KILL:when={number}")


def _watched(worker: Worker, trace: Path, *expressions: str) -> Outcome:
    with attached(worker.number, trace, "-e", *expressions):
        worker.go()
        return worker.outcome()
