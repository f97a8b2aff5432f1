"""Records every tool call when it ends: counters, log line and trace."""

from __future__ import annotations

import logging
import os
import select
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from deepwork.kernel.call import CANCELLED, Call
from deepwork.kernel.errors import Code, DeepworkError
from deepwork.kernel.foreign_text import escape_line
from deepwork.views.observability import tracing
from deepwork.views.observability.counters import COUNTERS

log = logging.getLogger("deepwork.calls")

GetStack = Callable[[str], list[str]]
_get_stack: GetStack = lambda _: []  # noqa: E731 - replaced by servers


_call_log: CallLog | None = None
"""Where servers with a text log write these lines; None means through `logging`."""


def set_call_log(call_log: CallLog | None) -> None:
    """Set where the lines of calls are written."""
    global _call_log  # noqa: PLW0603 - there is one log for the process
    _call_log = call_log


def set_stack_source(get_stack: GetStack) -> None:
    """Set where log lines take the stack of a caller's active jobs from."""
    global _get_stack  # noqa: PLW0603 - there is one log for the process
    _get_stack = get_stack


class CallRecorder:
    """Context manager around one tool call. Records the outcome, never the arguments."""

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
        code = None if error is None else get_error_code(error)
        if code and not self._call.is_wanted():
            code = CANCELLED
        COUNTERS.record_call(self._tool, seconds, code)
        tracing.mark_failed(code)
        if log.isEnabledFor(logging.INFO):
            self._log_outcome(seconds, code)

    def _log_outcome(self, seconds: float, code: str | None) -> None:
        stack = _get_stack(self._call.caller)
        message = (
            f"tool={self._tool} stack=[{', '.join(stack)}] ms={seconds * 1000:.1f} outcome={code or 'ok'}"
        )
        if _call_log is not None:
            _call_log.write(message)
            return
        facts = {
            "tool": self._tool,
            "caller": self._call.caller,
            "stack": stack,
            "duration_ms": round(seconds * 1000, 3),
            "outcome": "error" if code else "ok",
        }
        if code:
            facts["code"] = code
        log.info("%s", message, extra={"facts": facts})


def get_error_code(error: BaseException) -> str:
    """Return the error code that the caller receives; INTERNAL_ERROR for unexpected exceptions."""
    if isinstance(error, DeepworkError):
        return error.code.value
    return Code.INTERNAL_ERROR.value if isinstance(error, Exception) else CANCELLED


_ATOMIC = select.PIPE_BUF


class CallLog:
    """Writes lines of calls to a descriptor, far cheaper than `logging`, and without waiting for a reader.

    A client may start a server with a pipe for its standard error and never read it: lines that do not fit
    into the pipe are dropped, and counted.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._writing = threading.Lock()
        self._second, self._moment = 0, ""
        self._dropped = 0

    def write(self, message: str) -> None:
        """Write a line, unless that would have to wait."""
        now = time.time()
        with self._writing:
            line = self._format(now, "INFO", escape_line(message))
            if self._dropped:
                line = (
                    self._format(now, "WARNING", f"{self._dropped} lines were dropped: nobody read them")
                    + line
                )
            self._dropped = (
                0 if self._try_write(line.encode("utf-8", "backslashreplace")) else self._dropped + 1
            )

    def _format(self, now: float, level: str, message: str) -> str:
        second = int(now)
        if second != self._second:
            self._second = second
            self._moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second))
        return f"{self._moment},{int((now - second) * 1000):03} {level} deepwork.calls: {message}\n"

    def _try_write(self, line: bytes) -> bool:
        try:
            _, is_writable, _ = select.select([], [self._descriptor], [], 0)
            if is_writable:
                os.write(self._descriptor, line if len(line) <= _ATOMIC else line[: _ATOMIC - 1] + b"\n")
            return bool(is_writable)
        except (OSError, ValueError):  # standard error is closed
            return False
