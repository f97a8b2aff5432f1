"""Traces the system calls of a running process, and kills it at one of them."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from application import skip_or_fail
from chaos.workers import Outcome, Worker

CHANGES = "pwrite64,fsync,fdatasync,ftruncate,unlink,rename"
"""The system calls that change files: between them a file can be half written."""

WRITES = (
    f"{CHANGES},write,writev,pwritev,renameat,renameat2,unlinkat,link,linkat,mkdir,mkdirat,rmdir,fallocate"
)
"""All system calls that write: to files, folders, and to the caller."""

_CALL = re.compile(r"^\d+\s+(\w+)\(")


@contextmanager
def attach(process: int, trace: Path, *options: str) -> Iterator[None]:
    """Trace all threads of a process while the block runs."""
    command = ["strace", "-f", "-y", "-o", str(trace), *options, "-p", str(process)]
    strace = subprocess.Popen(command, stderr=subprocess.PIPE)
    assert strace.stderr is not None
    # strace prints this line once it is attached to every thread.
    line = strace.stderr.readline()
    if b"Operation not permitted" in line:  # by kernel.yama.ptrace_scope, or in a container
        strace.communicate()
        skip_or_fail("strace may not attach to a running process (see kernel.yama.ptrace_scope)")
    assert b"attached" in line, line
    try:
        yield
    finally:
        strace.terminate()
        strace.communicate(timeout=120)


def count_changes(worker: Worker, trace: Path, calls: str = CHANGES) -> Counter[str]:
    """Start a waiting worker; count its system calls that change files."""
    outcome = _run_traced(worker, trace, f"trace={calls}")
    assert outcome.is_well, outcome
    return Counter(found[1] for line in trace.read_text().splitlines() if (found := _CALL.match(line)))


def kill_at(worker: Worker, trace: Path, call: str, number: int) -> Outcome:
    """Start a waiting worker, and kill -9 it at the start of its n-th system call of this name."""
    return _run_traced(worker, trace, f"trace={call}", "-e", f"inject={call}:signal=KILL:when={number}")


def _run_traced(worker: Worker, trace: Path, *expressions: str) -> Outcome:
    with attach(worker.number, trace, "-e", *expressions):
        worker.go()
        return worker.wait_for_outcome()
