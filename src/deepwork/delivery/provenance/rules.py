"""Which task made a commit, by its trailers.

Links are named tuples, because there are many: Python creates them in a third of the time of frozen
dataclasses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from deepwork.kernel.values import CaseInsensitiveEnum


class KnownBy(CaseInsensitiveEnum):
    """How a link between a commit and a task is known. Recorded links have one of the first three."""

    RUNNER = "runner"  # the runner made the commit
    LANDING = "landing"  # a landing made the merge commit
    WATCHED = "watched"  # it was made in the task's tree while the task ran
    TREE = "tree"  # it changes the same files from the same to the same content
    PATCH_ID = "patch_id"  # it makes the same change to other content: rebased or cherry-picked
    PARENTS = "parents"  # a merge of recorded commits that adds nothing itself
    TRAILER = "trailer"  # only its trailers say so


class CommitLink(NamedTuple):
    """A change that a task made. `commit_hash` is empty for the work of the task as a whole."""

    task_id: str
    commit_hash: str
    tree_before: str
    tree: str
    known_by: KnownBy
    patch_id: str | None = None
    workflow_id: str | None = None
    attempt_id: str | None = None
    agent_id: str | None = None
    is_likely: bool = False
    """Whether another task may have made it as well."""
    recorded_at: int = 0


class TrailerClaim(NamedTuple):
    """What the trailers of a commit say about who made it."""

    task_id: str | None = None
    attempt_id: str | None = None
    agent_id: str | None = None
    landing_id: str | None = None


class AttemptIdentity(NamedTuple):
    """Which task an attempt was made at, and by which agent."""

    id: str
    task_id: str
    agent_id: str


class Match(NamedTuple):
    """A task that made a commit, as far as it is known."""

    task_id: str
    known_by: KnownBy
    workflow_id: str | None = None
    attempt_id: str | None = None
    agent_id: str | None = None
    is_likely: bool = False


class CommitVerdict(CaseInsensitiveEnum):
    """What verification says about a commit."""

    VERIFIED = "verified"  # its trailers are true
    LINKED = "linked"  # no trailers, but it is known which task made it
    UNLINKED = "unlinked"  # no trailers, and nothing is known
    FORGED = "forged"  # a trailer is not true
    UNVERIFIABLE = "unverifiable"  # its history is cut off, so it cannot be compared

    def fails(self, *, is_required: bool) -> bool:
        """Whether verification fails because of it; `is_required`: a task must be known to have made it."""
        is_bad = self in (CommitVerdict.FORGED, CommitVerdict.UNVERIFIABLE)
        return is_bad or (is_required and self is CommitVerdict.UNLINKED)


class VerifiedCommit(NamedTuple):
    """A commit with what its trailers claim, what is known, and what is wrong."""

    hash: str
    subject: str
    verdict: CommitVerdict
    claims: tuple[TrailerClaim, ...] = ()
    matches: tuple[Match, ...] = ()
    problems: tuple[str, ...] = ()


_TRAILERS = {f"deepwork-{name}": name for name in ("task", "attempt", "agent", "session", "step", "landing")}
_HINT, _UPPER_HINT = "eepwork-", "EEPWORK-"
_MAX_ID = 200
_MAX_CLAIMS = 50
_BY_PATCH_ID = KnownBy.PATCH_ID  # reading a member of an enum takes as long as building a match
_STRENGTH = {known_by: number for number, known_by in enumerate(KnownBy)}


# Trailers


def parse_claims(message: str) -> tuple[TrailerClaim, ...]:
    """Return what the trailers in the last paragraph of a message claim.

    A squashed commit can have the trailers of several commits: each repeated name begins the next claim.
    """
    if _HINT not in message and _UPPER_HINT not in message:
        return ()
    groups: list[dict[str, str]] = []
    for name, value in _list_trailers(message):
        if not groups or name in groups[-1]:
            groups.append({})
        groups[-1][name] = value
    if len(groups) == 1:
        return (_build_claim(groups[0]),)
    return tuple(dict.fromkeys(_build_claim(group) for group in groups[:_MAX_CLAIMS]))


def _list_trailers(message: str) -> list[tuple[str, str]]:
    text = (message.replace("\r\n", "\n") if "\r" in message else message).rstrip()
    last = text[text.rfind("\n\n") + 1 :]
    return [
        (name, value.lstrip(" \t").rstrip()[:_MAX_ID])
        for key, colon, value in [line.partition(":") for line in last.split("\n")]
        if colon and (name := _TRAILERS.get(key.casefold()))
    ]


def _build_claim(group: Mapping[str, str]) -> TrailerClaim:
    step = f"{group['session']}/{group['step']}" if "session" in group and "step" in group else None
    return TrailerClaim(
        group.get("task") or step, group.get("attempt"), group.get("agent"), group.get("landing")
    )


# Matching


class RecordedChanges:
    """The recorded changes of one task, to find those that lead from one tree to another.

    One change, or several in a row: a squash of them. The trees before and after must both fit. With the tree
    after alone, a commit could undo the work of others and claim to be the work of the task.
    """

    def __init__(self, links: Iterable[CommitLink]) -> None:
        self._links = list(links)
        self._by_start: dict[str, list[CommitLink]] = {}
        for link in self._links:
            if link.tree_before:
                self._by_start.setdefault(link.tree_before, []).append(link)

    def find(self, before: str, after: str) -> list[CommitLink]:
        """Return the links that end a chain of changes between two trees."""
        exact = [link for link in self._links if (link.tree_before, link.tree) == (before, after)]
        if exact or before == after:
            return exact
        reached = self._reach(before)
        return [link for tree in reached for link in self._by_start.get(tree, ()) if link.tree == after]

    def _reach(self, start: str) -> set[str]:
        """Return the trees that changes in a row lead to."""
        reached, unseen = {start}, [start]
        while unseen:
            for link in self._by_start.get(unseen.pop(), ()):
                if link.tree not in reached:
                    reached.add(link.tree)
                    unseen.append(link.tree)
        return reached


def group_by_task(links: Iterable[CommitLink]) -> dict[str, RecordedChanges]:
    """Index links by their task."""
    by_task: dict[str, list[CommitLink]] = {}
    for link in links:
        by_task.setdefault(link.task_id, []).append(link)
    return {task: RecordedChanges(own) for task, own in by_task.items()}


def find_chain(
    before: str, after: str, by_end: Mapping[str, Collection[CommitLink]], longest: int
) -> list[CommitLink]:
    """Return the shortest row of recorded changes of any tasks that leads from one tree to another.

    `by_end` has the changes by the tree that they end with. A squash of the work of several tasks consists of
    such a row, and of nothing else.
    """
    next_tree, reached = {after: ""}, [after]
    for _ in range(longest):
        if before in next_tree:
            break
        earlier = []
        for tree in reached:
            for link in by_end.get(tree, ()):
                if link.tree_before and link.tree_before not in next_tree:
                    next_tree[link.tree_before] = tree
                    earlier.append(link.tree_before)
        reached = earlier
    found: list[CommitLink] = []
    tree = before if before in next_tree else after
    while end := next_tree[tree]:
        found += [link for link in by_end[end] if link.tree_before == tree]
        tree = end
    return found


def build_matches(
    found: Collection[tuple[CommitLink, KnownBy]], confirmed: Collection[str] = ()
) -> tuple[Match, ...]:
    """Return one match for each task and agent, by its strongest link, the strongest first.

    The same change to other content is only likely to be the work of the task, unless trailers confirm it:
    others may have made the same change.
    """
    if len(found) == 1:  # the common case
        return tuple([_build_match(link, known_by, confirmed) for link, known_by in found])
    best: dict[tuple[str, str | None], Match] = {}
    for link, known_by in sorted(found, key=_rank):
        best.setdefault((link.task_id, link.agent_id), _build_match(link, known_by, confirmed))
    certain = {match.task_id for match in best.values() if not match.is_likely}
    return tuple(match for match in best.values() if not match.is_likely or match.task_id not in certain)


def _build_match(link: CommitLink, known_by: KnownBy, confirmed: Collection[str]) -> Match:
    task_id, _, _, _, _, _, workflow_id, attempt_id, agent_id, is_likely, _ = link
    is_weak = known_by is _BY_PATCH_ID and task_id not in confirmed
    return Match(task_id, known_by, workflow_id, attempt_id, agent_id, is_likely or is_weak)


def _rank(found: tuple[CommitLink, KnownBy]) -> tuple[int, bool, str, str]:
    """Sort by how certain a link is; those of attempts first, then in an order that is always the same."""
    link, known_by = found
    return _STRENGTH[known_by], link.attempt_id is None, link.task_id, link.agent_id or ""


def is_made_by_watched(paths: Collection[str], changed: Mapping[str, bool]) -> bool | None:
    """Return whether one of several tasks in a tree made a commit with these files; None if it did not.

    `changed` has the files that the task changed, and whether no other task may have changed them. False:
    some of the files may be those of others, so it is only likely.
    """
    if not any(path in changed for path in paths):
        return None
    return all(changed.get(path, False) for path in paths)


# Claims


def find_identity_problem(
    claim: TrailerClaim, attempts: Mapping[str, AttemptIdentity], others: Collection[str]
) -> str | None:
    """Return why a claim cannot be true whatever the commit contains: it names something that does not exist.

    `others` are the tasks and landings that exist.
    """
    if claim.landing_id is not None and claim.landing_id not in others:
        return f"There is no landing {claim.landing_id!r} in this store."
    if claim.attempt_id is not None:
        return _find_attempt_problem(claim, attempts.get(claim.attempt_id))
    if claim.task_id is None:
        return "Its trailers name no task and no attempt."
    return None if claim.task_id in others else f"There is no task {claim.task_id!r} in this store."


def _find_attempt_problem(claim: TrailerClaim, attempt: AttemptIdentity | None) -> str | None:
    if attempt is None:
        return f"There is no attempt {claim.attempt_id!r} in this store."
    if claim.task_id is not None and claim.task_id != attempt.task_id:
        return f"Attempt {attempt.id} was made at task {attempt.task_id}, not at {claim.task_id!r}."
    if claim.agent_id is not None and claim.agent_id != attempt.agent_id:
        return f"Attempt {attempt.id} was made by agent {attempt.agent_id}, not by {claim.agent_id!r}."
    return None


def find_claimed_task(claim: TrailerClaim, attempts: Mapping[str, AttemptIdentity]) -> str | None:
    """Return the task that a claim is about, directly or by its attempt."""
    attempt = attempts.get(claim.attempt_id or "")
    return attempt.task_id if attempt else claim.task_id


def supports(link: CommitLink, claim: TrailerClaim, attempts: Mapping[str, AttemptIdentity]) -> bool:
    """Return whether a link shows that the claim is true."""
    attempt = attempts.get(claim.attempt_id or "")
    if attempt is None:
        return link.task_id == claim.task_id and claim.agent_id in (None, link.agent_id)
    if link.task_id != attempt.task_id:
        return False
    return attempt.id == link.attempt_id if link.attempt_id else attempt.agent_id == link.agent_id


def are_supported(
    claims: Iterable[TrailerClaim], links: Collection[CommitLink], attempts: Mapping[str, AttemptIdentity]
) -> bool:
    """Return whether links show that all claims are true. Loops, because generators take twice as long."""
    for claim in claims:
        for link in links:
            if supports(link, claim, attempts):
                break
        else:
            return False
    return True


def find_supported(
    claims: Iterable[TrailerClaim], links: Collection[CommitLink], attempts: Mapping[str, AttemptIdentity]
) -> set[str]:
    """Return the tasks that trailers name and that links show to have made the commit."""
    true = [claim for claim in claims if any(supports(link, claim, attempts) for link in links)]
    return {task for claim in true if (task := find_claimed_task(claim, attempts))}


def list_claimed_matches(
    claims: Iterable[TrailerClaim],
    matches: Collection[Match],
    attempts: Mapping[str, AttemptIdentity],
    others: Collection[str],
) -> tuple[Match, ...]:
    """Return the tasks that only trailers name: they exist, but it is not known that they made the commit."""
    known = {match.task_id for match in matches}
    found = []
    for claim in claims:
        task = find_claimed_task(claim, attempts)
        if task and task not in known and find_identity_problem(claim, attempts, others) is None:
            attempt = attempts.get(claim.attempt_id or "")
            agent_id = attempt.agent_id if attempt else None
            found.append(Match(task, KnownBy.TRAILER, None, claim.attempt_id, agent_id, is_likely=True))
    return tuple(found)


def describe_other_content(claim: TrailerClaim, others: Collection[str]) -> str:
    """Say that a commit contains something else than the work that its trailers name."""
    who = f"attempt {claim.attempt_id}" if claim.attempt_id else f"task {claim.task_id}"
    made = f" It is the work of {', '.join(sorted(others))}." if others else ""
    return f"It has neither the tree nor the patch id of anything that {who} made.{made}"
