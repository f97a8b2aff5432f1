"""Verifies the trailers of commits: do they name the work that the commits contain?"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from deepwork.database.transaction import Database
from deepwork.git.command import Git
from deepwork.git.history import HistoryCommit, list_commits, resolve_range
from deepwork.provenance.interfaces import WorkDirectory
from deepwork.provenance.matching import EvidenceFinder
from deepwork.provenance.models import AttemptIdentity, Claim, CommitLink, KnownBy, Verdict, VerifiedCommit
from deepwork.provenance.rules import (
    build_matches,
    describe_other_content,
    find_claimed_task,
    find_identity_problem,
    find_supported,
    list_claimed_matches,
    parse_claims,
    supports,
)

MAX_COMMITS = 100_000
_CUT_OFF = (
    "Its parent is not in this repository, so its change cannot be compared: fetch more of the history."
)


class ProvenanceVerifier:
    """Verifies commits of one repository."""

    def __init__(self, database: Database, git: Git, directory: WorkDirectory) -> None:
        self._database, self._git, self._directory = database, git, directory

    def verify(self, range_text: str, *, is_required: bool = False) -> list[VerifiedCommit]:
        """Verify the commits of a range, newest first.

        `is_required`: compare also commits without trailers by their patch ids, which takes longer.
        """
        commits = list_commits(self._git, resolve_range(self._git, range_text), MAX_COMMITS)
        return self.verify_commits(commits, is_required=is_required)

    def verify_commits(
        self, commits: Sequence[HistoryCommit], *, is_required: bool = False
    ) -> list[VerifiedCommit]:
        """Verify these commits, in their order."""
        claims = {commit.hash: parse_claims(commit.message) for commit in commits}
        attempts, others = self._find_claimed(claims.values())

        def is_settled(commit: HistoryCommit, links: Collection[CommitLink]) -> bool:
            if not claims[commit.hash]:
                return bool(links) or not is_required
            return all(
                any(supports(link, claim, attempts) for link in links) for claim in claims[commit.hash]
            )

        evidence = EvidenceFinder(self._database, self._git).find(commits, is_settled)
        return [
            _judge(commit, claims[commit.hash], evidence[commit.hash], attempts, others) for commit in commits
        ]

    def _find_claimed(
        self, claims: Collection[tuple[Claim, ...]]
    ) -> tuple[dict[str, AttemptIdentity], set[str]]:
        """Find the attempts, and the tasks and landings, that trailers name: one query for each kind."""
        every = {claim for own in claims for claim in own}
        if not every:
            return {}, set()
        with self._database.reading() as tx:
            attempts = self._directory.find_attempts(
                tx, {each.attempt_id for each in every if each.attempt_id}
            )
            named = {each.task_id for each in every if each.task_id and not each.attempt_id}
            landings = {each.landing_id for each in every if each.landing_id}
            others = self._directory.find_tasks(tx, named) | self._directory.find_landings(tx, landings)
            return attempts, others


def _judge(
    commit: HistoryCommit,
    claims: Sequence[Claim],
    found: Sequence[tuple[CommitLink, KnownBy]],
    attempts: Mapping[str, AttemptIdentity],
    others: Collection[str],
) -> VerifiedCommit:
    matches = build_matches(found, find_supported(claims, [link for link, _ in found], attempts))
    if not claims:
        verdict = Verdict.LINKED if matches else Verdict.UNLINKED
        return VerifiedCommit(commit.hash, commit.subject, verdict, (), matches)
    problems = [_find_problem(claim, [link for link, _ in found], attempts, others) for claim in claims]
    wrong = tuple(problem for problem in problems if problem)
    verdict = Verdict.FORGED if wrong else Verdict.VERIFIED
    if wrong and commit.change is None and not _is_impossible(claims, attempts, others):
        verdict, wrong = Verdict.UNVERIFIABLE, (_CUT_OFF,)
    matches += list_claimed_matches(claims, matches, attempts, others)
    return VerifiedCommit(commit.hash, commit.subject, verdict, tuple(claims), matches, wrong)


def _find_problem(
    claim: Claim,
    links: Sequence[CommitLink],
    attempts: Mapping[str, AttemptIdentity],
    others: Collection[str],
) -> str | None:
    if problem := find_identity_problem(claim, attempts, others):
        return problem
    if any(supports(link, claim, attempts) for link in links):
        return None
    claimed = find_claimed_task(claim, attempts)
    return describe_other_content(claim, {link.task_id for link in links} - {claimed or ""})


def _is_impossible(
    claims: Sequence[Claim], attempts: Mapping[str, AttemptIdentity], others: Collection[str]
) -> bool:
    return any(find_identity_problem(claim, attempts, others) for claim in claims)
