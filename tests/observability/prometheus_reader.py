"""A strict parser of Prometheus' text format: anything that its specification does not allow is an error."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\\\|\\"|\\n)*"'
_SAMPLE = re.compile(rf"({_NAME})(?:\{{({_LABEL}(?:,{_LABEL})*)\}})? (\S+)")
_KINDS = {"counter", "gauge", "histogram"}


@dataclass
class ParsedMetric:
    """One parsed metric."""

    kind: str
    help: str
    samples: dict[tuple[str, frozenset[tuple[str, str]]], float] = field(default_factory=dict)


def parse_metrics(text: str) -> dict[str, ParsedMetric]:
    """Parse all metrics by name; fail on the first line that Prometheus would reject."""
    assert text.endswith("\n"), "the last line must end too"
    found: dict[str, ParsedMetric] = {}
    helps: dict[str, str] = {}
    current = ""
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            _, _, name, help = line.split(" ", 3)
            assert name not in helps, f"{name} is described twice"
            helps[name] = help
        elif line.startswith("# TYPE "):
            _, _, current, kind = line.split(" ")
            assert kind in _KINDS, line
            assert current not in found, f"{current} comes twice"
            found[current] = ParsedMetric(kind, helps[current])
        else:
            _parse_sample(line, current, found[current])
    for name, metric in found.items():
        if metric.kind == "histogram":
            _check_histogram(name, metric)
        if metric.kind == "counter":
            assert name.endswith("_total"), name
            assert all(value >= 0 for value in metric.samples.values()), name
    return found


def get_value(found: dict[str, ParsedMetric], name: str, suffix: str = "", **labels: str) -> float:
    """Return one sample."""
    return found[name].samples[name + suffix, frozenset(labels.items())]


def _parse_sample(line: str, current: str, metric: ParsedMetric) -> None:
    matched = _SAMPLE.fullmatch(line)
    assert matched, f"no sample: {line!r}"
    name, labels, number = matched.groups()
    suffixes = ("_bucket", "_sum", "_count") if metric.kind == "histogram" else ("",)
    assert name in {current + suffix for suffix in suffixes}, f"{name} stands under {current}"
    pairs = [tuple(pair.split("=", 1)) for pair in re.findall(_LABEL, labels or "")]
    assert len({key for key, _ in pairs}) == len(pairs), f"a label comes twice: {line!r}"
    place = name, frozenset((key, _unescape(quoted[1:-1])) for key, quoted in pairs)
    assert place not in metric.samples, f"comes twice: {line!r}"
    metric.samples[place] = float(number)


def _unescape(escaped: str) -> str:
    return re.sub(r"\\(.)", lambda found: {"n": "\n"}.get(found[1], found[1]), escaped)


def _check_histogram(name: str, metric: ParsedMetric) -> None:
    series: dict[frozenset[tuple[str, str]], dict[float, float]] = {}
    for (sample, labels), count in metric.samples.items():
        if sample == f"{name}_bucket":
            bound = dict(labels)["le"]
            rest = frozenset(pair for pair in labels if pair[0] != "le")
            series.setdefault(rest, {})[float(bound)] = count
    for rest, buckets in series.items():
        counts = [buckets[bound] for bound in sorted(buckets)]
        assert counts == sorted(counts), f"{name} shrinks from a bound to the next"
        assert max(buckets) == float("inf"), f"{name} has no +Inf"
        assert metric.samples[f"{name}_count", rest] == counts[-1]
        assert metric.samples[f"{name}_sum", rest] >= 0
