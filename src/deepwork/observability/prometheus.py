"""Renders metrics in Prometheus' text exposition format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from deepwork.observability.counters import BOUNDS, Histogram

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, str]


@dataclass(frozen=True)
class Metric:
    """A metric with one value for each set of labels."""

    name: str
    kind: str
    """counter, gauge or histogram."""
    help: str
    values: list[tuple[Labels, float | Histogram]] = field(default_factory=list)


def create_single_metric(name: str, kind: str, help: str, value: float) -> Metric:
    """Create a metric with one value and no labels."""
    return Metric(name, kind, help, [({}, value)])


def render_metrics(metrics: Iterable[Metric]) -> str:
    """Render all metrics, each with its HELP and TYPE lines."""
    return "".join(f"{line}\n" for metric in metrics for line in _render_metric(metric))


def _render_metric(metric: Metric) -> Iterator[str]:
    yield f"# HELP {metric.name} {metric.help.replace(chr(92), chr(92) * 2)}"
    yield f"# TYPE {metric.name} {metric.kind}"
    for labels, value in metric.values:
        if isinstance(value, Histogram):
            yield from _render_histogram(metric.name, labels, value)
        else:
            yield f"{metric.name}{_format_labels(labels)} {_format_number(value)}"


def _render_histogram(name: str, labels: Labels, histogram: Histogram) -> Iterator[str]:
    count = 0
    for bound, more in zip((*BOUNDS, float("inf")), histogram.counts, strict=True):
        count += more
        yield f"{name}_bucket{_format_labels({**labels, 'le': _format_number(bound)})} {count}"
    yield f"{name}_sum{_format_labels(labels)} {_format_number(histogram.total)}"
    yield f"{name}_count{_format_labels(labels)} {count}"


def _format_labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items()) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _format_number(value: float) -> str:
    return "+Inf" if value == float("inf") else repr(value)
