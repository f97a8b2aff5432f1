"""Traces: FastMCP makes a span of every request, and here they are sent to a collector."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from deepwork import __version__

log = logging.getLogger("deepwork")

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
GRACE_SECONDS = 2.0
"""For the last spans when the server ends: the client of a stdio server waits for that end."""

_current_span: Callable[[], Any] | None = None
"""How to find the span of this call; None where nobody collects any."""


def start_tracing(environment: Mapping[str, str]) -> Callable[[], None]:
    """Send spans where OpenTelemetry's own variables say; gives back what sends the last ones."""
    endpoint = next((name for name in ENDPOINTS if environment.get(name)), None)
    if endpoint is None or environment.get("OTEL_TRACES_EXPORTER") == "none":
        return _nothing
    try:
        return _started()
    except ModuleNotFoundError as missing:
        if not (missing.name or "").startswith("opentelemetry"):
            raise
        log.warning("%s is set, but no traces are sent. Install: pip install 'deepwork[otel]'", endpoint)
        return _nothing


def mark(code: str | None) -> None:
    """Say on the span of this call that it went wrong; FastMCP sees an answer like any other."""
    if _current_span is None or code is None:
        return
    from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415 - only where traces are sent

    span = _current_span()
    span.set_attribute("error.type", code)
    span.set_status(Status(StatusCode.ERROR, code))


def _started() -> Callable[[], None]:
    # A tenth of a second to import: only whoever sends traces pays for it.
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
    return lambda: _within(GRACE_SECONDS, provider.shutdown)


def _within(seconds: float, act: Callable[[], None]) -> None:
    """Do it, but do not wait for a collector that is away."""
    acting = threading.Thread(target=act, daemon=True)
    acting.start()
    acting.join(seconds)


def _nothing() -> None:
    """No span was made, so none is left to send."""
