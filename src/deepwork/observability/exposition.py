"""Figures in the text form that Prometheus reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from deepwork.observability.counters import BOUNDS, Spread

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, str]


@dataclass(frozen=True)
class Metric:
    """One figure, or the same one of several things told apart by labels."""

    name: str
    kind: str
    """counter, gauge or histogram."""
    help: str
    values: list[tuple[Labels, float | Spread]] = field(default_factory=list)


def single(name: str, kind: str, help: str, value: float) -> Metric:
    """A figure without labels."""
    return Metric(name, kind, help, [({}, value)])


def exposition(metrics: Iterable[Metric]) -> str:
    """All of them, a line each and two above."""
    return "".join(f"{line}\n" for metric in metrics for line in _lines(metric))


def _lines(metric: Metric) -> Iterator[str]:
    yield f"# HELP {metric.name} {metric.help.replace(chr(92), chr(92) * 2)}"
    yield f"# TYPE {metric.name} {metric.kind}"
    for labels, value in metric.values:
        if isinstance(value, Spread):
            yield from _spread(metric.name, labels, value)
        else:
            yield f"{metric.name}{_labels(labels)} {_number(value)}"


def _spread(name: str, labels: Labels, spread: Spread) -> Iterator[str]:
    count = 0
    for bound, more in zip((*BOUNDS, float("inf")), spread.counts, strict=True):
        count += more
        yield f"{name}_bucket{_labels({**labels, 'le': _number(bound)})} {count}"
    yield f"{name}_sum{_labels(labels)} {_number(spread.total)}"
    yield f"{name}_count{_labels(labels)} {count}"


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return "+Inf" if value == float("inf") else repr(value)
