"""Whether a server that answered had its data on disk, by its own system calls.

Killing a process does not show it: what was written and not flushed is only lost with the machine. So the
order of the calls is the proof: each answer begins after a flush of the log ended well, and that flush began
after the last write to the log.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

CALLS = "write,writev,sendto,sendmsg,pwrite64,pwritev,fsync,fdatasync,msync"

_WHOLE = re.compile(r"^(?P<thread>\d+)\s+(?P<call>\w+)\((?P<given>.*)\)\s+= (?P<result>-?\d+)")
_BEGUN = re.compile(r"^(?P<thread>\d+)\s+(?P<call>\w+)\((?P<given>.*?)\s*<unfinished \.\.\.>$")
_ENDED = re.compile(r"^(?P<thread>\d+)\s+<\.\.\. (?P<call>\w+) resumed>.*\)\s+= (?P<result>-?\d+)")
_REQUEST = re.compile(r'\\"id\\":(\d+)')


@dataclass
class SystemCall:
    """One call: the lines of the trace at which it began and ended."""

    name: str
    given: str
    begun: int
    ended: int | None = None
    is_done: bool = False

    @property
    def file(self) -> str:
        """What it was about, by strace's -y."""
        return self.given.partition("<")[2].partition(">")[0]


def system_calls(trace: str) -> list[SystemCall]:
    """The calls of a trace by `strace -f -y`, in the order in which they began."""
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
    """An answer on the wire: to which request, after how many writes to the log, and whether too early."""

    request: int
    writes: int
    is_safe: bool


def replies(trace: str, wire: str, log: str) -> list[Reply]:
    """Every answer on the wire, judged by what happened to the log before it."""
    calls = system_calls(trace)
    found: list[Reply] = []
    since = -1
    for call in calls:
        if call.file != wire or not call.name.startswith(("write", "send")):
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
