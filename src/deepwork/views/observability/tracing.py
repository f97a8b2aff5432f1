"""Creates a span for every MCP request and sends it to an OpenTelemetry collector, if tracing is on."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from deepwork import __version__

log = logging.getLogger("deepwork")

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
