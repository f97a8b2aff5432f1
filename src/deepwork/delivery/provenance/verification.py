"""Verifies the trailers of commits: do they name the work that the commits contain?"""

from __future__ import annotations

import gc
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from deepwork.delivery.provenance.interfaces import WorkDirectory
from deepwork.delivery.provenance.matching import EvidenceFinder, Found
from deepwork.delivery.provenance.models import (
    AttemptIdentity,
    CommitLink,
    CommitVerdict,
    KnownBy,
    TrailerClaim,
    VerifiedCommit,
)
from deepwork.delivery.provenance.rules import (
    are_supported,
    build_matches,
    describe_other_content,
    find_claimed_task,
    find_identity_problem,
    find_supported,
    list_claimed_matches,
    parse_claims,
    supports,
)
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.history import HistoryCommit, list_commits, resolve_range

MAX_COMMITS = 100_000
# Read once: reading a member of an enum takes as long as building a value for a commit.
_UNLINKED, _VERIFIED, _BY_PATCH_ID = CommitVerdict.UNLINKED, CommitVerdict.VERIFIED, KnownBy.PATCH_ID
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
        wanted = resolve_range(self._git, range_text)
        with _pause_garbage_collection():
            commits = list_commits(self._git, wanted, MAX_COMMITS)
            return self.verify_commits(commits, is_required=is_required)

    def verify_commits(
        self, commits: Sequence[HistoryCommit], *, is_required: bool = False
    ) -> list[VerifiedCommit]:
        """Verify these commits, in their order."""
        claims = {commit.hash: found for commit in commits if (found := parse_claims(commit.message))}
        attempts = self._find_attempts(claims.values())

        def is_settled(commit: HistoryCommit, found: Collection[Found]) -> bool:
            own = claims.get(commit.hash)
            if own is None:
                return bool(found)
            return are_supported(own, [link for link, _ in found], attempts)

        judged = commits if is_required else [commit for commit in commits if commit.hash in claims]
        evidence, opened = EvidenceFinder(self._database, self._git).find(commits, judged, is_settled)
        unsettled = [found for hash, found in claims.items() if hash in opened]
        known = _Known(attempts, self._find_others(claims.values(), unsettled))
        return [
            _judge(commit, claims.get(key, ()), evidence.get(key, ()), known, is_settled=key not in opened)
            if (key := commit.hash) in claims or key in evidence
            else VerifiedCommit(key, commit.subject, _UNLINKED)
            for commit in commits
        ]

    def _find_attempts(self, claims: Collection[tuple[TrailerClaim, ...]]) -> dict[str, AttemptIdentity]:
        """Find the attempts that trailers name, with one query for all."""
        ids = {claim.attempt_id for own in claims for claim in own if claim.attempt_id}
        if not ids:
            return {}
        with self._database.reading() as tx:
            return self._directory.find_attempts(tx, ids)

    def _find_others(
        self, claims: Collection[tuple[TrailerClaim, ...]], unsettled: Collection[tuple[TrailerClaim, ...]]
    ) -> set[str]:
        """Find the tasks and landings that trailers name; a task that has links need not be looked up."""
        tasks = {claim.task_id for own in claims for claim in own if claim.task_id}
        doubtful = {claim.task_id for own in unsettled for claim in own if claim.task_id}
        landings = {claim.landing_id for own in claims for claim in own if claim.landing_id}
        if not (doubtful or landings):
            return tasks
        with self._database.reading() as tx:
            found = self._directory.find_tasks(tx, doubtful) | self._directory.find_landings(tx, landings)
        return tasks - doubtful | found


@contextmanager
def _pause_garbage_collection() -> Iterator[None]:
    """Search for no unused cycles: what is built for thousands of commits has none, and is all in use."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _Known(NamedTuple):
    """What trailers name and what exists: attempts by id, and the ids of tasks and landings."""

    attempts: Mapping[str, AttemptIdentity]
    others: Collection[str]


def _judge(
    commit: HistoryCommit,
    claims: Sequence[TrailerClaim],
    found: Collection[Found],
    known: _Known,
    *,
    is_settled: bool,
) -> VerifiedCommit:
    """Judge a commit that has trailers or is known to be the work of a task."""
    if not claims:
        matches = build_matches(found)
        return VerifiedCommit(commit.hash, commit.subject, CommitVerdict.LINKED, (), matches)
    is_compared = _BY_PATCH_ID in [known_by for _, known_by in found]
    if is_settled and not is_compared and not _has_identity_problem(claims, known):
        return VerifiedCommit(commit.hash, commit.subject, _VERIFIED, tuple(claims), build_matches(found))
    wrong = _list_problems(claims, found, known, is_settled=is_settled)
    links = [link for link, _ in found] if is_compared else []
    matches = build_matches(found, find_supported(claims, links, known.attempts) if links else ())
    if not wrong:
        return VerifiedCommit(commit.hash, commit.subject, _VERIFIED, tuple(claims), matches)
    verdict = CommitVerdict.FORGED
    if commit.change is None and not _has_identity_problem(claims, known):
        verdict, wrong = CommitVerdict.UNVERIFIABLE, (_CUT_OFF,)
    matches += list_claimed_matches(claims, matches, *known)
    return VerifiedCommit(commit.hash, commit.subject, verdict, tuple(claims), matches, wrong)


def _has_identity_problem(claims: Sequence[TrailerClaim], known: _Known) -> bool:
    """Return whether a claim names something that does not exist."""
    attempts, others = known
    for claim in claims:  # noqa: SIM110 - it runs for every commit, and a generator takes twice as long
        if find_identity_problem(claim, attempts, others) is not None:
            return True
    return False


def _list_problems(
    claims: Sequence[TrailerClaim], found: Collection[Found], known: _Known, *, is_settled: bool
) -> tuple[str, ...]:
    """List what is wrong with claims; of a settled commit only what they name has to exist."""
    problems = [find_identity_problem(claim, *known) for claim in claims]
    if not is_settled:
        links = [link for link, _ in found]
        problems = [
            problem or _find_content_problem(claim, links, known)
            for claim, problem in zip(claims, problems, strict=True)
        ]
    return tuple([problem for problem in problems if problem])


def _find_content_problem(claim: TrailerClaim, links: Sequence[CommitLink], known: _Known) -> str | None:
    if any(supports(link, claim, known.attempts) for link in links):
        return None
    claimed = find_claimed_task(claim, known.attempts)
    return describe_other_content(claim, {link.task_id for link in links} - {claimed or ""})
