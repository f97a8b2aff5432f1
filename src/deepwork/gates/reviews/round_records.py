"""Converts findings and rounds to and from JSON values: as they are stored, and as a reviewer writes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from deepwork.gates.reviews.rounds import Finding, FindingEffect, Round, Severity

MAX_READ = 1000
"""How many findings of a verdict are read."""


def parse_round(record: Mapping[str, Any]) -> Round:
    """Parse a stored round."""
    findings = tuple(map(parse_stored_finding, record["findings"]))
    return Round(**{**record, "findings": findings, "disputed": tuple(record["disputed"])})


def parse_stored_finding(record: Mapping[str, Any]) -> Finding:
    return Finding(
        **{**record, "severity": Severity(record["severity"]), "effect": FindingEffect(record["effect"])}
    )


def read_findings(written: object) -> tuple[Finding, ...]:
    """Read the findings of a verdict; raise TypeError if they are not a list of findings."""
    if written is None:
        return ()
    if not isinstance(written, list):
        raise TypeError("findings is not a list")
    return tuple(_read_finding(each) for each in written[:MAX_READ])


def to_shown(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Convert findings for people and agents: their keys, and what each does; empty keys are left out."""
    shown = (
        {
            "severity": each.severity.value,
            "file": each.file,
            "line": each.line,
            "claim": each.claim,
            "failure": each.failure,
            "effect": each.effect.value,
        }
        for each in findings
    )
    return [{key: value for key, value in each.items() if value is not None} for each in shown]


def _read_finding(written: object) -> Finding:
    """Read one finding; a severity that is none counts as major, and a place that is none is left out."""
    if not isinstance(written, dict) or not isinstance(written.get("claim"), str):
        raise TypeError("a finding needs a claim")
    file, line, failure = (written.get(key) for key in ("file", "line", "failure"))
    return Finding(
        _read_severity(written.get("severity")),
        written["claim"],
        file.removeprefix("./") or None if isinstance(file, str) else None,
        line if isinstance(line, int) and not isinstance(line, bool) and line > 0 else None,
        failure if isinstance(failure, str) else None,
    )


def _read_severity(written: object) -> Severity:
    try:
        return Severity(str(written))
    except ValueError:
        return Severity.MAJOR
