"""What a reviewer reads about the rounds of a review, and an author about its findings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from deepwork.gates.reviews.deltas import Delta, render_delta
from deepwork.gates.reviews.rounds import Finding, ReviewPolicy, ReviewScope, Round, list_open_findings

_MAX_CLAIM = 300
_REPEAT_RULE = (
    "Repeat a finding that is not fixed, with its file and line. A new finding on a line that did not change "
    "is recorded, but sends the work back only as a blocker."
)


def render_rules(policy: ReviewPolicy) -> str:
    """Tell a reviewer what a finding is, and which ones send the work back."""
    blocks = " and ".join(each.value for each in policy.blocks)
    return (
        "- List each problem in `findings`: severity (blocker, major or minor), file, line, claim (what is "
        f"wrong) and failure (how it fails). Only {blocks} findings send the work back."
    )


def render_round(
    policy: ReviewPolicy, earlier: Sequence[Round], granted: int = 0, *, shows_changes: bool
) -> str:
    """Tell a reviewer which round this is, what to judge, and which findings are open."""
    if not earlier:
        return ""
    number, last = len(earlier) + 1, policy.rounds + granted
    judge = (
        "Judge only what changed since the last round, shown below, and whether the open findings are fixed."
        if shows_changes
        else "Judge everything again, and whether the open findings are fixed."
    )
    lines = [
        f"This is round {number} of {max(number, last)}; after the last one a person decides. {judge}",
        _REPEAT_RULE,
    ]
    findings = list_open_findings(earlier)
    listed = [f"- {format_finding(each)}" for each in findings] or ["- none with a severity that blocks"]
    return "\n".join([*lines, "", "Open findings:", *listed])


def render_changes(policy: ReviewPolicy, delta: Delta | None) -> str | None:
    """Render what changed since the last round; None if the reviewer is to read everything."""
    return render_delta(delta) if delta is not None and policy.scope is ReviewScope.DELTA else None


def format_finding(finding: Finding) -> str:
    """Format a finding on one line."""
    place = f"{finding.file}:{finding.line}" if finding.file and finding.line else finding.file
    failure = f" ({_shorten(finding.failure)})" if finding.failure else ""
    return f"{finding.severity.value} {f'{place}: ' if place else ''}{_shorten(finding.claim)}{failure}"


def format_findings(findings: Iterable[Finding]) -> str:
    return "; ".join(map(format_finding, findings))


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_CLAIM else f"{line[: _MAX_CLAIM - 1]}…"
