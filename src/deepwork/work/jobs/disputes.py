"""An author disputes findings: once per review, a second reviewer judges all of them together."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from deepwork.gates.reviews.round_text import format_finding
from deepwork.gates.reviews.rounds import Finding
from deepwork.kernel.errors import ReviewerError

_LINE_PATTERN = re.compile(
    r"^\s*dispute\s+(?P<place>all|\S+?)\s*:\s+(?P<why>.+)$", re.IGNORECASE | re.MULTILINE
)

DISPUTE_SYSTEM_PROMPT = (
    "You judge a dispute between the author of a work and its reviewer. You are neither of them. Answer with "
    "the JSON object that the schema describes: `upheld` lists the numbers of the findings that are right."
)
DISPUTE_VERDICT: dict[str, Any] = {
    "type": "object",
    "required": ["upheld"],
    "properties": {"upheld": {"type": "array", "items": {"type": "integer"}}, "feedback": {"type": "string"}},
}


def find_disputed(notes: str | None, findings: Sequence[Finding]) -> list[tuple[Finding, str]]:
    """Find the findings that lines of an author's notes dispute, each with the reason.

    A line is `dispute FILE:LINE: why`, `dispute FILE: why`, or `dispute all: why`.
    """
    reasons = {match["place"]: match["why"].strip() for match in _LINE_PATTERN.finditer(notes or "")}
    found = ((each, _find_reason(reasons, each)) for each in findings)
    return [(each, why) for each, why in found if why]


def render_dispute(disputed: Sequence[tuple[Finding, str]]) -> str:
    """Render the findings with both sides, numbered."""
    lines = [
        f"{number}. Reviewer: {format_finding(each)}\n   Author: {' '.join(why.split())}"
        for number, (each, why) in enumerate(disputed, start=1)
    ]
    return "\n".join(["## Disputed Findings", "", *lines, "", "Which of them are right? Judge by the files."])


def parse_upheld(disputed: Sequence[tuple[Finding, str]], verdict: Mapping[str, Any]) -> list[str]:
    """Return the fingerprints of the findings that the second reviewer upholds."""
    numbers = verdict.get("upheld")
    if not isinstance(numbers, list) or not all(type(each) is int for each in numbers):
        raise ReviewerError("The reviewer failed: its `upheld` is not a list of numbers.", recoverable=True)
    return [each.fingerprint for number, (each, _) in enumerate(disputed, start=1) if number in numbers]


def _find_reason(reasons: Mapping[str, str], finding: Finding) -> str | None:
    places = (f"{finding.file}:{finding.line}", finding.file or "all", "all")
    return next((reasons[place] for place in places if place in reasons), None)
