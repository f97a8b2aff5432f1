"""Checks in a trace of system calls whether a server had flushed its data to disk before it answered.

Killing a process does not show this: data that was written but not flushed is lost only if the machine crashes.
The order of the calls proves it: each answer starts after a successful flush of the log, and that flush started
after the last write to the log.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

CALLS = "write,writev,sendto,sendmsg,pwrite64,pwritev,pwritev2,fsync,fdatasync,msync"

_WHOLE = re.compile(r"^(?P<thread>\d+)\s+(?P<call>\w+)\((?P<given>.*)\)\s+= (?P<result>-?\d+)")
_BEGUN = re.compile(r"^(?P<thread>\d+)\s+(?P<call>\w+)\((?P<given>.*?)\s*<unfinished \.\.\.>$")
_ENDED = re.compile(r"^(?P<thread>\d+)\s+<\.\.\. (?P<call>\w+) resumed>.*\)\s+= (?P<result>-?\d+)")
_REQUEST = re.compile(r'\\"id\\":(\d+)')


@dataclass
class SystemCall:
    """One system call, with the lines of the trace at which it began and ended."""

    name: str
    given: str
    begun: int
    ended: int | None = None
    is_done: bool = False

    @property
    def file(self) -> str:
        """The file of the call, as shown by strace's -y."""
        return self.given.partition("<")[2].partition(">")[0]


def parse_trace(trace: str) -> list[SystemCall]:
    """Parse the output of `strace -f -y`; calls are in the order in which they began."""
    calls: list[SystemCall] = []
    open_calls: dict[str, SystemCall] = {}
    for number, line in enumerate(trace.splitlines()):
        if found := _BEGUN.match(line):
            open_calls[found["thread"]] = SystemCall(found["call"], found["given"], number)
            calls.append(open_calls[found["thread"]])
        elif found := _ENDED.match(line):
            call = open_calls.pop(found["thread"])
            call.ended, call.is_done = number, int(found["result"]) >= 0
        elif found := _WHOLE.match(line):
            is_done = int(found["result"]) >= 0
            calls.append(SystemCall(found["call"], found["given"], number, number, is_done))
    return calls


@dataclass(frozen=True)
class Reply:
    """An answer: its request, the number of writes to the log before it, and whether they were flushed."""

    request: int
    writes: int
    is_safe: bool


def find_replies(trace: str, wire: str, log: str) -> list[Reply]:
    """Find every answer in the trace, and check the log before each."""
    calls = parse_trace(trace)
    found: list[Reply] = []
    since = -1
    for call in calls:
        if call.file != wire or not call.name.startswith(("write", "send", "pwrite")):
            continue
        if call.ended is not None and not call.is_done:  # the pipe was full
            continue
        if request := _REQUEST.search(call.given):
            before = [each for each in calls if each.begun < call.begun and each.file.endswith(log)]
            writes = [each for each in before if each.name.startswith("pwrite")]
            new = sum(each.begun > since for each in writes)
            found.append(Reply(int(request[1]), new, _is_flushed(before, writes, call.begun)))
            since = call.begun
    return found


def _is_flushed(before: list[SystemCall], writes: list[SystemCall], answered: int) -> bool:
    if not writes:
        return True
    if any(each.ended is None or each.ended > answered for each in writes):
        return False
    last = max(each.ended or 0 for each in writes)
    return any(
        each.name in ("fsync", "fdatasync")
        and each.is_done
        and each.begun > last
        and (each.ended or answered) < answered
        for each in before
    )
