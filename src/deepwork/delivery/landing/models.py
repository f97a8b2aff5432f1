"""Landings, and what may happen to them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from deepwork.kernel.records import dataclass
from deepwork.kernel.values import CaseInsensitiveEnum

MAX_BATCH = 4
"""How many landings are checked together."""
MAX_RETURNS = 2
"""How often work goes back to the agent that did it, before a person has to look."""


class LandingKind(CaseInsensitiveEnum):
    """What a landing brings to a branch."""

    TASK = "task"  # the branch of a task, by a merge commit
    COMMIT = "commit"  # a commit that was prepared for the branch, such as a revert


class LandingStatus(CaseInsensitiveEnum):
    """Where a landing is.

    A landing that was returned, waits or needs a person stays open: landing the same task again goes on
    with it, so the number of returns is kept.
    """

    QUEUED = "queued"
    CHECKING = "checking"  # merged; its checks run
    WAITING = "waiting"  # for the approval of a person
    MOVING = "moving"  # everything passed, and the branch is being moved
    RETURNED = "returned"  # to the agent that did the work
    NEEDS_PERSON = "needs_person"
    LANDED = "landed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """Whether the landing has ended."""
        return self in (LandingStatus.LANDED, LandingStatus.CANCELLED)

    @property
    def is_pending(self) -> bool:
        """Whether a process works on it, or has to."""
        return self in (LandingStatus.QUEUED, LandingStatus.CHECKING, LandingStatus.MOVING)


class Problem(CaseInsensitiveEnum):
    """Why a landing did not end with its branch moved."""

    CONFLICT = "conflict"  # with what landed before
    RED = "red"  # a check fails on the merged result
    REFUSED = "refused"  # by the person who had to approve it
    APPROVAL = "approval"  # a person has not decided yet
    CHECKS = "checks"  # they cannot run: not trusted, or not defined on the target
    TARGET_RED = "target_red"  # a check fails on the target itself
    TARGET_CONFLICT = "target_conflict"  # the target conflicts with the integration branch
    BRANCH = "branch"  # the branch cannot be moved, such as an integration branch that is checked out


class LandingEvent(CaseInsensitiveEnum):
    """Event types of landings; the payload is the landing as REST shows it."""

    QUEUED = "landing:queued"
    UPDATED = "landing:updated"
    ENDED = "landing:ended"


@dataclass(frozen=True)
class Landing:
    """One task's way to a branch; times are Unix milliseconds."""

    id: str
    kind: LandingKind
    subject_id: str
    """What it is about: at most one landing of a subject is open. The id of the task, for a task."""
    workflow_id: str | None
    task_id: str | None
    title: str
    host: str
    repository_path: str
    target: str
    """The branch that the work is meant for."""
    status: LandingStatus
    done_at: int
    """When the task was completed: the oldest lands first."""
    created_by: str
    created_at: int
    updated_at: int
    branch: str | None = None
    """The branch that is moved: the target, or an integration branch if the target is checked out."""
    source_branch: str | None = None
    source_commit: str | None = None
    base_commit: str | None = None
    """Where the branch was before it is moved; None if it did not exist."""
    merge_commit: str | None = None
    merge_tree: str | None = None
    branch_commit: str | None = None
    """Where the branch is moved to: the merge commit of the last landing of the same batch."""
    attempt_id: str | None = None
    agent_id: str | None = None
    problem: Problem | None = None
    reason: str | None = None
    """Why it has its status, for people and for the agent that did the work."""
    returns: int = 0
    """How often the work went back to the agent that did it."""
    ended_at: int | None = None

    @property
    def is_integrated(self) -> bool:
        """Whether it moves an integration branch instead of its target."""
        return self.branch is not None and self.branch != self.target


@dataclass(frozen=True)
class BranchLease:
    """The right to move one branch of one repository: one process at a time, until the time is over.

    It counts for all machines, each of which has a clone of the repository.
    """

    repository: str
    """The first commit of the branch, which all clones have in common."""
    branch: str
    holder: str
    epoch: int


@dataclass(frozen=True)
class WorkOrigin:
    """The attempt and the agent that did the work of a task."""

    attempt_id: str | None = None
    agent_id: str | None = None


@dataclass(frozen=True)
class FinishedBranch:
    """The branch of a task that is done, ready to land."""

    task_id: str
    workflow_id: str
    name: str
    branch: str
    commit: str
    tree: str
    done_at: int
    outcome: str | None = None


@dataclass(frozen=True)
class Skipped:
    """A task that has nothing to land, or that cannot land now, and why."""

    task_id: str
    name: str
    reason: str
    is_refused: bool = False
    """Whether a person has to do something first, such as commit what is uncommitted."""
    branch: str | None = None
    host: str | None = None
    """The machine that has its work, if this repository does not have it: then nothing of its plan lands."""


@dataclass(frozen=True)
class PreparedCommit:
    """A commit to be built on the current tip of a branch and landed there, such as a revert.

    `build` gets the tip and returns the commit; its first parent is the tip. It is called again if the branch
    moved meanwhile, so it must not have any other effect. It runs outside transactions.
    """

    subject_id: str
    title: str
    repository_path: str
    target: str
    build: Callable[[str], str]
    workflow_id: str | None = None
    task_id: str | None = None
    project_path: str | None = None
    """The folder of the project whose checks run; else that of the repository."""
    checks: tuple[str, ...] = ()
    """Checks that it has to pass, as the target defines them."""


MAX_REASON = 4000
_MAX_FILES = 20
_MAX_SUBJECT = 72
WAITS_FOR_DEPENDENCY = "It builds on work that has not landed yet: land that first."
INTEGRATION_PREFIX = "deepwork/integration/"

LANDED, FAILED, NEEDS_PERSON = 0, 1, 3
"""Exit codes of `deepwork land`; docs/command-line.md documents them."""


def name_integration_branch(workflow_id: str) -> str:
    """Return the branch that gets the work of a plan while its target is checked out."""
    return f"{INTEGRATION_PREFIX}{workflow_id}"


def sort_by_dependencies(
    landings: Sequence[Landing], dependencies: Mapping[str, Collection[str]]
) -> list[Landing]:
    """Sort landings so that each follows those it depends on; else their order stays.

    `dependencies` maps tasks to all tasks that they wait for, directly or not.
    """
    known = {landing.task_id for landing in landings}
    left, placed, done = list(landings), [], set[str | None]()
    while left:
        free = [each for each in left if not (_get_needed(each, dependencies) & known - done)]
        chosen = free[0] if free else left[0]  # a plan has no cycles
        left.remove(chosen)
        placed.append(chosen)
        done.add(chosen.task_id)
    return placed


def list_ready(
    landings: Sequence[Landing], dependencies: Mapping[str, Collection[str]], unlanded: Collection[str]
) -> list[Landing]:
    """List the landings that may land now or after those before them in the list.

    `unlanded` are tasks whose landings are open and not in the list, because they wait for somebody.
    """
    blocked, ready = set(unlanded), []
    for each in landings:
        if _get_needed(each, dependencies) & blocked:
            blocked.add(each.task_id or "")
        else:
            ready.append(each)
    return ready


def _get_needed(landing: Landing, dependencies: Mapping[str, Collection[str]]) -> set[str]:
    return set(dependencies.get(landing.task_id or "", ()))


def choose_batch(
    ready: Sequence[Landing], suspects: Collection[str], alone: Collection[str]
) -> list[Landing]:
    """Choose what is merged and checked together: the first few, or half of those that were red together.

    `alone` are landings that a person has to approve: what they are shown is one merge, so each of these is
    a batch of its own. All of a batch move the same branch.
    """
    if not ready:
        return []
    suspected = [each for each in ready if each.id in suspects]
    pool = suspected or ready
    size = max(1, len(suspected) // 2) if suspected else MAX_BATCH
    first = pool[0]
    if first.id in alone:
        return [first]
    batch = []
    for each in pool:
        if each.id in alone or each.kind is not first.kind or each.workflow_id != first.workflow_id:
            break
        batch.append(each)
    return batch[:size]


def may_return(landing: Landing) -> bool:
    """Return whether the work may go back to the agent that did it once more."""
    return landing.returns < MAX_RETURNS


def choose_exit_code(
    statuses: Iterable[LandingStatus], *, is_refused: bool = False, is_elsewhere: bool = False
) -> int:
    """Return the exit code for landings that ended in these ways."""
    found = set(statuses)
    if is_elsewhere:
        return NEEDS_PERSON
    if is_refused:
        return FAILED
    return LANDED if found <= {LandingStatus.LANDED, LandingStatus.CANCELLED} else NEEDS_PERSON


def build_message(landing: Landing, outcome: str | None) -> str:
    """Build the message of a merge commit, with the trailers that name the work."""
    name = " ".join(landing.title.split()) or landing.subject_id
    trailers = {
        "Deepwork-Task": landing.task_id,
        "Deepwork-Attempt": landing.attempt_id,
        "Deepwork-Agent": landing.agent_id,
        "Deepwork-Landing": landing.id,
    }
    lines = [f"{key}: {value}" for key, value in trailers.items() if value]
    subject = f"Land {name}"[:_MAX_SUBJECT]
    body = _remove_trailers((outcome or "").strip())[:MAX_REASON]
    return "\n\n".join(part for part in (subject, body, "\n".join(lines)) if part) + "\n"


def _remove_trailers(text: str) -> str:
    """Indent lines of an agent's text that would read as trailers of ours."""
    return "\n".join(f" {line}" if line.startswith("Deepwork-") else line for line in text.splitlines())


def describe_conflict(branch: str, landing: Landing, files: Sequence[str], messages: Sequence[str]) -> str:
    """Describe a conflict to the agent or the person that has to resolve it."""
    more = f" and {len(files) - _MAX_FILES} more" if len(files) > _MAX_FILES else ""
    where = f" in {', '.join(files[:_MAX_FILES])}{more}" if files else ""
    said = "\n".join(messages[:_MAX_FILES])
    return (
        f"{landing.source_branch} conflicts with {branch}{where}. Run `git merge {branch}` in its tree,"
        f" resolve the conflicts, keep what both sides intend, and commit.\n{said}"
    ).strip()[:MAX_REASON]


def describe_red(branch: str, failure: str) -> str:
    """Describe to the agent a check that fails on the merged result."""
    return (
        f"Merged into {branch}, the work does not pass: {failure}\n"
        f"Run `git merge {branch}` in its tree, correct the work there, and commit."
    )[:MAX_REASON]


def describe_move(landing: Landing) -> str:
    """Say in one sentence where a landing ended."""
    if landing.merge_commit is None:
        return landing.reason or f"Nothing of it is missing on {landing.target}."
    where = f"{landing.branch} as {landing.merge_commit[:12]}"
    if not landing.is_integrated:
        return f"Landed on {where}."
    return (
        f"Landed on {where}, because {landing.target} is checked out;"
        f" `git merge {landing.branch}` there takes it in."
    )


def describe_landed_elsewhere(landing: Landing) -> str:
    """Say that another machine has a branch with landed work which this one does not have."""
    return (
        f"{landing.title!r} landed on {landing.branch} of {landing.host} as"
        f" {(landing.merge_commit or '')[:12]}, and that is not in {landing.branch} here. Fetch"
        f" {landing.branch} from {landing.host} first, or land there."
    )


_CONFLICT_PATTERN = re.compile(
    r"^CONFLICT \([^)]*\): (?:Merge conflict in (.+)|(.+?) (?:deleted|renamed|added) (?:in|to) .*)$",
    re.MULTILINE,
)


def list_conflict_files(reason: str) -> list[str]:
    """List the files that git named as conflicting, from what `describe_conflict` wrote."""
    found = (one or other for one, other in _CONFLICT_PATTERN.findall(reason))
    return list(dict.fromkeys(found))


PROBLEM_WORDS: Mapping[Problem, str] = {
    Problem.CONFLICT: "conflicts with what landed before",
    Problem.RED: "fails its checks after the merge",
    Problem.REFUSED: "was refused",
    Problem.APPROVAL: "waits for approval",
    Problem.CHECKS: "has checks that cannot run",
    Problem.TARGET_RED: "cannot be checked: its target is red",
    Problem.TARGET_CONFLICT: "has an integration branch that conflicts with its target",
    Problem.BRANCH: "cannot move its branch",
}
"""Why a landing waits for a person, after its title."""
