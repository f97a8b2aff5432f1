"""Whether what was seen of files can be relied on: a clock that ticks slowly hides a change right after."""

from __future__ import annotations

from collections.abc import Iterable

from deepwork.files.stamps import Stamp

_TICK_NS = 20_000_000


def is_settled(stamps: Iterable[Stamp | None], began: int) -> bool:
    """Whether nothing changed while we looked, or too shortly before to be told apart from a change after."""
    newest = max((changed for _, changed, *_ in filter(None, stamps)), default=0)
    return newest < began - _TICK_NS
