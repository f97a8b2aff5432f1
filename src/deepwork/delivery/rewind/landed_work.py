"""Undoes landed work by new commits on its branch; history is never changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from deepwork.delivery.landing.batches import Blocked
from deepwork.delivery.landing.models import Landing, LandingStatus, PreparedCommit
from deepwork.delivery.landing.prepared import PreparedLander
from deepwork.delivery.landing.recorder import move_landing
from deepwork.delivery.landing.store import LandingStore
from deepwork.delivery.rewind.models import Revert, Rewind
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.errors import NotAllowed
from deepwork.kernel.files.repositories import find_repository
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.merge_commits import build_revert
from deepwork.kernel.git.refs import is_ancestor, resolve_commit

_MAX_NAMED = 5


class LandedWork:
    """Finds landed work, and undoes it through the landing service."""

    def __init__(
        self, database: Database, git_at: Callable[[Path], Git], get_lander: Callable[[], PreparedLander]
    ) -> None:
        self._database, self._git_at, self._get_lander = database, git_at, get_lander

    def list_reverts(self, landed: Iterable[Landing]) -> list[Revert]:
        """List what has to be undone, in the given order: what the target or the integration branch has."""
        return [
            Revert(each.id, str(each.task_id), each.repository_path, each.target, commit, each.title)
            for each in landed
            if (commit := str(each.merge_commit))
            and any(
                self._has_commit(each.repository_path, branch, commit)
                for branch in (each.branch or each.target, each.target)
            )
        ]

    def place(self, reverts: Sequence[Revert], plan: str) -> tuple[list[Revert], dict[str, str]]:
        """Say which branch a person merges afterwards, and what is in the way, with the reason.

        Each is tried on the result of those before it, as they will be built.
        """
        placed: list[Revert] = []
        problems: dict[str, str] = {}
        tips: dict[tuple[str, str], str] = {}
        for revert in reverts:
            place = self._get_lander().find_place(revert.repository, revert.branch, plan)
            if isinstance(place, Blocked):
                problems[revert.branch] = place.reason
                continue
            tip = tips.get((revert.repository, place.branch), place.start)
            built = build_revert(self._git_at(Path(revert.repository)), tip, revert.commit, "preview")
            reason = f"later work on {place.branch} changed what {revert.title!r} landed"
            problems |= dict.fromkeys(built.conflicts, reason)
            tips[revert.repository, place.branch] = built.commit or tip
            placed.append(self._say_merge(revert, place.branch, revert.commit))
        return placed, problems

    def _say_merge(self, revert: Revert, branch: str, commit: str) -> Revert:
        """Say which branch gets the commit, and whether a person merges it: if the work is merged already."""
        is_merged = self._has_commit(revert.repository, revert.branch, commit)
        merge = branch if is_merged and branch != revert.branch else None
        return replace(revert, merge=merge, place=branch)

    def land(self, rewind: Rewind, revert: Revert) -> Revert | None:
        """Land the commit that undoes another one; return it as what could be undone again.

        None if there was nothing to undo. What has landed for this rewind is not landed twice.
        """
        git = self._git_at(Path(revert.repository))
        subject = f"{rewind.id}:{revert.landing_id}:{revert.branch}"

        def build(tip: str) -> str:
            built = build_revert(git, tip, revert.commit, _write_message(rewind, revert))
            if built.commit is None:
                raise _build_conflict_error(revert, built.conflicts)
            return built.commit

        prepared = PreparedCommit(
            subject_id=subject,
            title=f"Revert of {revert.title}",
            repository_path=revert.repository,
            target=revert.branch,
            build=build,
            workflow_id=rewind.workflow_id,
            task_id=revert.task_id,
        )
        try:
            landed = self._get_lander().land(prepared)
        except NotAllowed:
            self._give_up(subject)
            raise
        if landed.status is not LandingStatus.LANDED:
            raise NotAllowed(
                f"{revert.title!r} could not be undone on {revert.branch}: {landed.reason}",
                suggestion="Solve this, then call again: the rewind goes on.",
                recoverable=True,
            )
        if landed.merge_commit is None:
            return None
        done = self._say_merge(revert, landed.branch or revert.branch, revert.commit)
        return replace(done, landing_id=landed.id, commit=landed.merge_commit)

    def _has_commit(self, repository: str, branch: str, commit: str) -> bool:
        if find_repository(Path(repository)) is None:
            return False
        git = self._git_at(Path(repository))
        tip = resolve_commit(git, f"refs/heads/{branch}")
        return tip is not None and resolve_commit(git, commit) is not None and is_ancestor(git, commit, tip)

    def _give_up(self, subject: str) -> None:
        with self._database.transaction() as tx:
            if landing := LandingStore(tx).find_open(subject):
                move_landing(tx, landing, LandingStatus.CANCELLED, reason="It conflicts with later work.")


def _write_message(rewind: Rewind, revert: Revert) -> str:
    verb = "Revert" if rewind.undoes is None else "Reapply"
    why = f"Task {revert.task_id} was rewound" if rewind.undoes is None else f"{rewind.undoes} was undone"
    return (
        f"{verb} {revert.title}\n\n{why} ({rewind.id}).\nThis undoes commit {revert.commit}.\n\n"
        f"Deepwork-Task: {revert.task_id}\n"
    )


def _build_conflict_error(revert: Revert, files: Sequence[str]) -> NotAllowed:
    named = ", ".join(files[:_MAX_NAMED])
    return NotAllowed(
        f"{revert.title!r} cannot be undone on {revert.branch}: later work changed {named}.",
        suggestion="Rewind the tasks that landed later first, or undo it by hand.",
        recoverable=True,
    )
