"""Whether file stamps are old enough to detect a later change.

File systems take modification times from a clock with coarse ticks. A file that changes twice within one tick
keeps its stamp, so a stamp as young as the read itself proves nothing (git calls such entries "racy").
"""

from __future__ import annotations

from collections.abc import Iterable

from deepwork.files.stamps import FileStamp

_CLOCK_TICK_NS = 20_000_000


def are_reliable(stamps: Iterable[FileStamp | None], began: int) -> bool:
    """Whether every file last changed clearly before `began`, in Unix nanoseconds, when reading started."""
    newest = max((changed for _, changed, *_ in filter(None, stamps)), default=0)
    return newest < began - _CLOCK_TICK_NS
