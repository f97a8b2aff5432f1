"""Every call of a tool, as it ends: counted, logged, and marked on its trace."""

from __future__ import annotations

import logging
import time
from types import TracebackType
from typing import Self

from deepwork.database.call import Call
from deepwork.errors import Code, DeepworkError
from deepwork.observability import tracing
from deepwork.observability.counters import COUNTERS

log = logging.getLogger("deepwork.calls")

CANCELLED = "CANCELLED"
"""The code of a call that was broken off; no error's, since nobody is there to read one."""


class Watched:
    """A block in which one tool is called. Of its arguments nothing is told, only how it went."""

    __slots__ = ("_began", "_call", "_tool")

    def __init__(self, tool: str, call: Call) -> None:
        self._tool, self._call = tool, call

    def __enter__(self) -> Self:
        self._began = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        seconds = time.perf_counter() - self._began
        code = None if error is None else code_of(error)
        COUNTERS.called(self._tool, seconds, code)
        tracing.mark(code)
        if log.isEnabledFor(logging.INFO):
            self._write(seconds, code)

    def _write(self, seconds: float, code: str | None) -> None:
        milliseconds = round(seconds * 1000, 3)
        facts = {
            "tool": self._tool,
            "caller": self._call.caller,
            "duration_ms": milliseconds,
            "outcome": "error" if code else "ok",
        }
        if code:
            facts["code"] = code
        log.info(
            "%s %s in %s ms",
            self._tool,
            f"failed with {code}" if code else "answered",
            milliseconds,
            extra={"facts": facts},
        )


def code_of(error: BaseException) -> str:
    """What the caller is told, as one word; a fault of our own has but one."""
    if isinstance(error, DeepworkError):
        return error.code.value
    return Code.INTERNAL_ERROR.value if isinstance(error, Exception) else CANCELLED
