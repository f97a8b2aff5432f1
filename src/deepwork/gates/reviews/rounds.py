"""Rules that end reviews, as pure functions over their rounds.

A reviewer can always find something more. So only findings of some severities send work back, a late one does
not, and after some rounds, or when nothing improves, a person decides.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from deepwork.kernel.records import dataclass
from deepwork.kernel.values import CaseInsensitiveEnum

DEFAULT_ROUNDS = 3
MAX_FINDINGS = 50
"""How many findings of a round are kept; blocking ones first."""
MAX_FINDING_TEXT = 600


class Severity(CaseInsensitiveEnum):
    BLOCKER = "blocker"
    MAJOR = "major"
    MINOR = "minor"


class ReviewScope(CaseInsensitiveEnum):
    """What a reviewer sees from the second round on."""

    DELTA = "delta"
    WHOLE = "whole"


class FindingEffect(CaseInsensitiveEnum):
    """What a finding does to the work: it sends it back, or is only recorded, and why."""

    BLOCKS = "blocks"
    NOTED = "noted"
    LATE = "late"
    REJECTED = "rejected"


class PersonReason(CaseInsensitiveEnum):
    """Why a person must decide about a review, or about a step."""

    USED_UP = "rounds_used_up"
    STALLED = "stalled"
    REVIEWER_ERROR = "reviewer_error"
    BUDGET = "budget"


@dataclass(frozen=True)
class ReviewPolicy:
    """When the review of a rule ends."""

    rounds: int = DEFAULT_ROUNDS
    blocks: tuple[Severity, ...] = (Severity.BLOCKER, Severity.MAJOR)
    scope: ReviewScope = ReviewScope.DELTA
    by_other: bool = False
    """Whether the reviewer must be another agent than the author."""
    is_explicit: bool = False
    """Whether the definition of the review names the number of rounds."""

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> ReviewPolicy:
        """Read what a valid definition of a review says about its rounds, in job.yml or .deepreview."""
        return cls(
            rounds=data.get("rounds", cls.rounds),
            blocks=tuple(dict.fromkeys(map(Severity, data.get("blocks", cls.blocks)))),
            scope=ReviewScope(data.get("scope", cls.scope)),
            by_other=data.get("by") == "other",
        )


@dataclass(frozen=True)
class Finding:
    """What a reviewer found; `claim` says what is wrong, `failure` how it fails."""

    severity: Severity
    claim: str
    file: str | None = None
    line: int | None = None
    failure: str | None = None
    fingerprint: str = ""
    """Names the same problem in every round; computed when the round is judged."""
    effect: FindingEffect = FindingEffect.NOTED


@dataclass(frozen=True)
class RoundVerdict:
    """What a reviewer says about one round."""

    passed: bool
    findings: tuple[Finding, ...] = ()
    is_complete: bool = True
    """Whether it judged everything that it was asked to judge."""


@dataclass(frozen=True)
class Round:
    """One review of a rule, as it was judged."""

    number: int
    passed: bool
    findings: tuple[Finding, ...] = ()
    tree: str | None = None
    """The files that were judged; None if they could not be stored."""
    reviewer: str | None = None
    fails_anyway: bool = False
    """Whether it failed for another reason than its findings, so that none of them decides."""
    disputed: tuple[str, ...] = ()
    """Fingerprints of the findings that a second reviewer judged."""


@dataclass(frozen=True)
class Material:
    """What a round judges, as far as findings refer to it."""

    get_anchor: Callable[[str, int], str | None] = lambda _file, _line: None
    """The text of a line and its place among equal lines; None if there is no such line."""
    has_changed: Callable[[Finding], bool] = lambda _finding: True
    """Whether the place of a finding changed since the tree of the round before."""


def judge_round(
    policy: ReviewPolicy, earlier: Sequence[Round], verdict: RoundVerdict, material: Material
) -> Round:
    """Judge what a reviewer says after these rounds: which findings send the work back, and whether any does.

    Without findings, the reviewer's word counts; with findings, only these do.
    """
    named = (_name_finding(_cut(each), material) for each in verdict.findings)
    judged = [replace(each, effect=find_effect(policy, earlier, each, material)) for each in named]
    kept = sorted(judged, key=lambda each: each.effect is not FindingEffect.BLOCKS)[:MAX_FINDINGS]
    fails_anyway = not verdict.is_complete or not (verdict.passed or judged)
    passed = not fails_anyway and not any(each.effect is FindingEffect.BLOCKS for each in kept)
    number = earlier[-1].number + 1 if earlier else 1
    return Round(number, passed, tuple(kept), fails_anyway=fails_anyway)


def find_effect(
    policy: ReviewPolicy, earlier: Sequence[Round], finding: Finding, material: Material
) -> FindingEffect:
    """Return what a finding with a fingerprint does after these rounds."""
    known = {each.fingerprint: each.effect for round in earlier for each in round.findings}
    before = known.get(finding.fingerprint)
    if before is FindingEffect.REJECTED:
        return FindingEffect.REJECTED
    if finding.severity not in policy.blocks:
        return FindingEffect.NOTED
    is_new_place = not earlier or material.has_changed(finding)
    if finding.severity is Severity.BLOCKER or is_new_place or before is FindingEffect.BLOCKS:
        return FindingEffect.BLOCKS
    return FindingEffect.LATE


def compute_fingerprint(finding: Finding, anchor: str | None) -> str:
    """Name the problem: by the text of its line if it names one, else by its file and the words of its claim.

    Two claims about the same unchanged line are the same problem, however they are phrased. A claim without a
    line is another one as soon as its words differ: nothing else tells it apart.
    """
    words = re.findall(r"\w+", finding.claim.casefold())
    place = f"#{' '.join(words)}" if anchor is None else " ".join(anchor.split())
    name = f"{finding.file or ''}\n{place}"
    # A line can be as long as its file.
    return name if len(name) <= MAX_FINDING_TEXT else hashlib.sha256(name.encode()).hexdigest()


def is_same_round(before: Round, judged: Round) -> bool:
    """Whether a round only repeats the one before: the same files and the same problems."""
    problems = [sorted(each.fingerprint for each in round.findings) for round in (before, judged)]
    return judged.tree is not None and judged.tree == before.tree and problems[0] == problems[1]


def get_tree_to_compare(rounds: Sequence[Round]) -> str | None:
    """Return the files that the last round judged; None if the next one has to see everything.

    It has to if the last one failed and did not say where, or left something unjudged.
    """
    return None if not rounds or rounds[-1].fails_anyway else rounds[-1].tree


def list_open_findings(rounds: Sequence[Round]) -> tuple[Finding, ...]:
    """Return the findings that the work must still answer: those of the last round that block."""
    return list_blocking(rounds[-1]) if rounds else ()


def list_blocking(round: Round) -> tuple[Finding, ...]:
    return tuple(each for each in round.findings if each.effect is FindingEffect.BLOCKS)


def is_stalled(rounds: Sequence[Round]) -> bool:
    """Whether the last round shows no progress.

    It blocks on a problem that blocked before, or on as many problems as the round before.
    """
    if len(rounds) < 2 or rounds[-1].passed:
        return False
    last, previous = list_blocking(rounds[-1]), list_blocking(rounds[-2])
    before = {each.fingerprint for round in rounds[:-1] for each in list_blocking(round)}
    is_repeated = any(each.fingerprint in before for each in last)
    return is_repeated or bool(last and previous and len(last) >= len(previous))


def find_person_reason(
    policy: ReviewPolicy, rounds: Sequence[Round], granted: int = 0
) -> PersonReason | None:
    """Return why a person must decide about a rule after these rounds; None if work can go on."""
    if not rounds or rounds[-1].passed:
        return None
    if is_stalled(rounds):
        return PersonReason.STALLED
    return PersonReason.USED_UP if len(rounds) >= policy.rounds + granted else None


def may_call_reviewer(policy: ReviewPolicy, used: int, granted: int = 0) -> bool:
    """Whether a reviewer may be asked once more.

    `used` counts rounds, disputes and failures of the reviewer; each of them has at most two calls. So a rule
    costs at most 2 x (rounds + 1) calls, whatever the reviewer says.
    """
    return used < policy.rounds + granted + 1


def may_dispute(rounds: Sequence[Round]) -> bool:
    """Whether the author may still dispute findings of the rule."""
    return bool(list_open_findings(rounds)) and not any(round.disputed for round in rounds)


def settle_dispute(round: Round, disputed: Iterable[str], upheld: Iterable[str]) -> Round:
    """Reject the disputed findings that a second reviewer does not uphold; the others stay."""
    names = tuple(sorted(set(disputed)))
    rejected = set(names) - set(upheld)
    findings = tuple(
        replace(each, effect=FindingEffect.REJECTED) if each.fingerprint in rejected else each
        for each in round.findings
    )
    settled = replace(round, findings=findings, disputed=names)
    return replace(settled, passed=not round.fails_anyway and not list_blocking(settled))


def _name_finding(finding: Finding, material: Material) -> Finding:
    anchor = material.get_anchor(finding.file, finding.line) if finding.file and finding.line else None
    return replace(finding, fingerprint=compute_fingerprint(finding, anchor))


def _cut(finding: Finding) -> Finding:
    file, failure = (each and each[:MAX_FINDING_TEXT] for each in (finding.file, finding.failure))
    return replace(finding, claim=finding.claim[:MAX_FINDING_TEXT], file=file, failure=failure)


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
