"""Logs, counts and traces every call."""

from __future__ import annotations

import logging
import os
import select
import stat
import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import field
from types import TracebackType
from typing import Any, Self

from deepwork import __version__
from deepwork.kernel.call import CANCELLED, Call
from deepwork.kernel.errors import Code, DeepworkError
from deepwork.kernel.foreign_text import escape_line
from deepwork.kernel.records import dataclass

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 300.0)
"""Seconds. Most calls take a few milliseconds; a step with a reviewer takes minutes."""
REFUSAL_STATUSES = frozenset({401, 403, 413, 421, 429, 431, 503})
"""HTTP statuses with which the guard refuses requests."""


@dataclass
class Histogram:
    """Durations counted by bound, and their sum."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    """One count for each bound, and one for longer durations."""
    total: float = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds

    def copy(self) -> Histogram:
        return Histogram(list(self.counts), self.total)


@dataclass(frozen=True)
class CounterSnapshot:
    """A copy of all counters at one moment."""

    durations: dict[str, Histogram]
    errors: dict[tuple[str, str], int]
    """By tool and code."""
    refusals: dict[int, int]
    """By status."""
    deliveries: Histogram


class Counters:
    """Thread-safe counters that only grow. Labels are tool names and error codes, so they are bounded."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._durations: dict[str, Histogram] = {}
        self._errors: Counter[tuple[str, str]] = Counter()
        self._refusals: Counter[int] = Counter()
        self._deliveries = Histogram()

    def record_call(self, tool: str, seconds: float, code: str | None = None) -> None:
        """Count a tool call and its duration; `code` is the error code if it failed."""
        with self._lock:
            if (histogram := self._durations.get(tool)) is None:
                histogram = self._durations[tool] = Histogram()
            histogram.add(seconds)
            if code is not None:
                self._errors[tool, code] += 1

    def record_refusal(self, status: int) -> None:
        """Count a request that the guard refused."""
        with self._lock:
            self._refusals[status] += 1

    def record_delivery(self, seconds: float) -> None:
        """Count an event that was delivered this long after it was stored."""
        with self._lock:
            self._deliveries.add(seconds)

    def take_snapshot(self) -> CounterSnapshot:
        """Copy all counters."""
        with self._lock:
            return CounterSnapshot(
                {tool: histogram.copy() for tool, histogram in self._durations.items()},
                dict(self._errors),
                dict(self._refusals),
                self._deliveries.copy(),
            )


COUNTERS = Counters()
"""The counters of this process; global, like loggers."""


log = logging.getLogger("deepwork")
_calls_log = logging.getLogger("deepwork.calls")

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
GRACE_SECONDS = 2.0
"""Time to send the last spans at exit; the client of a stdio server waits for the exit."""

_current_span: Callable[[], Any] | None = None
"""Returns the span of the current call; None if tracing is off."""


def start_tracing(environment: Mapping[str, str]) -> Callable[[], None]:
    """Start tracing if OpenTelemetry's environment variables enable it; return a flush function."""
    endpoint = next((name for name in ENDPOINTS if environment.get(name)), None)
    if endpoint is None or environment.get("OTEL_TRACES_EXPORTER") == "none":
        return _do_nothing
    try:
        return _start_exporter()
    except ModuleNotFoundError as missing:
        if not (missing.name or "").startswith("opentelemetry"):
            raise
        log.warning("%s is set, but no traces are sent. Install: pip install 'deepwork[otel]'", endpoint)
        return _do_nothing


NO_SPAN: AbstractContextManager[object] = nullcontext()


def is_on() -> bool:
    return _current_span is not None


def trace_request(
    method: str, name: str | None, session: str | None, meta: Mapping[str, Any]
) -> AbstractContextManager[object]:
    """Return the span of a request, for a `with` block; `name` is that of the tool or prompt.

    The trace of the client goes on if `meta` has a `traceparent`.
    """
    if _current_span is None:
        return NO_SPAN
    from opentelemetry import propagate, trace  # noqa: PLC0415 - only where traces are sent

    attributes = {"mcp.method.name": method}
    if name is not None:
        attributes["gen_ai.tool.name" if method == "tools/call" else "gen_ai.prompt.name"] = name
    if session is not None:
        attributes["mcp.session.id"] = session
    return trace.get_tracer("deepwork", __version__).start_as_current_span(
        method if name is None else f"{method} {name}",
        context=propagate.extract(meta),
        kind=trace.SpanKind.SERVER,
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    )


def mark_failed(code: str | None) -> None:
    """Mark the current span as failed, unless `code` is None: errors of tools are answers, not exceptions."""
    if _current_span is None or code is None:
        return
    from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415 - only where traces are sent

    span = _current_span()
    span.set_attribute("error.type", code)
    span.set_status(Status(StatusCode.ERROR, code))


def _start_exporter() -> Callable[[], None]:
    # These imports take a tenth of a second, so they happen only if tracing is on.
    from opentelemetry import trace  # noqa: PLC0415
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    global _current_span  # noqa: PLW0603 - there is one tracer provider for the process
    ours = Resource.create({"service.name": "deepwork", "service.version": __version__})
    provider = TracerProvider(resource=ours.merge(OTELResourceDetector().detect()))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    _current_span = trace.get_current_span
    return lambda: _run_with_timeout(GRACE_SECONDS, provider.shutdown)


def _run_with_timeout(seconds: float, act: Callable[[], None]) -> None:
    """Run it, but return after this many seconds even if the collector does not answer."""
    acting = threading.Thread(target=act, daemon=True)
    acting.start()
    acting.join(seconds)


def _do_nothing() -> None:
    """Nothing to flush if tracing is off."""


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
        mark_failed(code)
        if _calls_log.isEnabledFor(logging.INFO):
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
        _calls_log.info("%s", message, extra={"facts": facts})


def get_error_code(error: BaseException) -> str:
    """Return the error code that the caller receives; INTERNAL_ERROR for unexpected exceptions."""
    if isinstance(error, DeepworkError):
        return error.code.value
    return Code.INTERNAL_ERROR.value if isinstance(error, Exception) else CANCELLED


_ATOMIC = select.PIPE_BUF
_NO_WAIT: int = getattr(os, "RWF_NOWAIT", 0)
"""The flag of Linux for a write that fails instead of waiting: one system call instead of two."""


def _is_pipe(descriptor: int) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(descriptor).st_mode)
    except OSError:  # closed
        return False


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
        self._is_pipe = _NO_WAIT != 0 and _is_pipe(descriptor)

    def write(self, message: str) -> None:
        """Write a line, unless that would have to wait."""
        now, is_plain = time.time(), message.isascii() and message.isprintable()
        with self._writing:
            line = self._format(now, "INFO", message if is_plain else escape_line(message))
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
        line = line if len(line) <= _ATOMIC else line[: _ATOMIC - 1] + b"\n"
        if self._is_pipe:
            try:
                return os.pwritev(self._descriptor, (line,), -1, _NO_WAIT) > 0
            except (BlockingIOError, BrokenPipeError):
                return False
            except OSError:  # not on this system
                self._is_pipe = False
        try:
            _, is_writable, _ = select.select([], [self._descriptor], [], 0)
            if is_writable:
                os.write(self._descriptor, line)
            return bool(is_writable)
        except (OSError, ValueError):  # standard error is closed
            return False
