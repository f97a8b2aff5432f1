"""Decisions about landings, as pure functions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from deepwork.delivery.landing.models import MAX_BATCH, MAX_RETURNS, Landing, LandingStatus, Problem

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
