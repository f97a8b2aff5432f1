"""Creates the git branch for the work of a session, unless others use the working tree."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable

from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import DeepworkError, GitError
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.refs import find_current_branch, resolve_commit
from deepwork.kernel.records import dataclass
from deepwork.work.jobs.sessions.state import Session
from deepwork.work.plans.models import PlanStatus, TaskStatus
from deepwork.work.workspaces.models import WorkspaceStatus

PREFIX = "deepwork/"
MAX_NAME = 120

FindReason = Callable[[], str | None]
"""Returns why the working tree must stay on its branch; None if it may be switched."""
ListSessions = Callable[[], Iterable[Session]]
"""Lists the sessions of the project, oldest first."""

_OPEN = [each.value for each in PlanStatus if not each.is_final]
_RUNNING = [each.value for each in TaskStatus if each.is_running]


@dataclass(frozen=True)
class Branch:
    """The branch of a session."""

    name: str
    is_switched: bool = False
    """Whether the working tree was switched to it."""
    way_back: str | None = None
    """The command that switches back, if it was, or if an earlier session did it."""
    note: str | None = None


def build_branch_name(job: str, workflow: str, suffix: str) -> str:
    """Build a valid branch name for a session; the suffix may be any text."""
    cleaned = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{job}-{workflow}-{suffix}")
    cleaned = re.sub(r"\.{2,}|\.lock(?=$)|-{2,}", "-", cleaned).strip("-.")
    return PREFIX + cleaned[:MAX_NAME].strip("-.")


def prepare_branch(
    git: Git, name: str, mode: str, find_reason_to_stay: FindReason, list_sessions: ListSessions
) -> Branch | None:
    """Create the branch, and switch to it in mode `switch`; return None if there is no commit to branch from.

    The new branch starts at HEAD, so switching changes no file and keeps uncommitted work. The tree stays
    where it is if `find_reason_to_stay` returns a reason.
    """
    if mode == "off" or not git.is_repository() or not _has_commit(git):
        return None
    current = _read_current(git)
    if current.startswith(PREFIX):
        return _reuse_branch(current, list_sessions())
    free = _find_free_name(git, name)
    reason = "git_branch is `create`" if mode == "create" else find_reason_to_stay()
    if reason:
        git.run("branch", free)
        stays = f"the working tree stays on {current or 'its commit'}: {reason}"
        return Branch(free, note=f"Branch {free} was created, but {stays}. To switch: `git switch {free}`.")
    way_back = f"git switch {shlex.quote(current)}" if current else _build_way_to_commit(git)
    git.run("switch", "--quiet", "-c", free)
    note = f"The working tree was switched to the new branch {free}. To go back: `{way_back}`."
    return Branch(free, is_switched=True, way_back=way_back, note=note)


def build_branch_note(git: Git, ended: Session, list_sessions: ListSessions) -> str | None:
    """Say how to leave the branch of an ended session; None if no session switched to it, or it was left."""
    if not ended.way_back or not _is_on_branch(git, ended.branch):
        return None
    used = "".join(
        f" Session {each.session_id} still uses this branch."
        for each in list_sessions()
        if each.is_active and each.branch == ended.branch and each.session_id != ended.session_id
    )
    return f"The working tree is still on branch {ended.branch}.{used} To go back: `{ended.way_back}`."


def _reuse_branch(current: str, sessions: Iterable[Session]) -> Branch:
    """Use the current branch; the way back is that of the session that switched to it."""
    ways = [each.way_back for each in sessions if each.branch == current and each.way_back]
    note = f"The working tree is on branch {current} already: the session uses it."
    if not ways:
        return Branch(current, note=note)
    return Branch(current, way_back=ways[-1], note=f"{note} To go back: `{ways[-1]}`.")


def _is_on_branch(git: Git, name: str | None) -> bool:
    try:
        return _read_current(git) == name
    except GitError:
        return False


def _read_current(git: Git) -> str:
    """Read the name of the current branch; empty if HEAD is detached."""
    return find_current_branch(git) or ""


def _build_way_to_commit(git: Git) -> str:
    commit = git.run("rev-parse", "--short", "HEAD").decode().strip()
    return f"git switch --detach {commit}"


def _find_free_name(git: Git, name: str) -> str:
    listed = git.run("for-each-ref", "--format=%(refname:lstrip=2)", f"refs/heads/{PREFIX}").decode().split()
    taken = set(listed)
    return next(
        each for each in (name, *(f"{name}-{number}" for number in range(2, 10_000))) if each not in taken
    )


def _has_commit(git: Git) -> bool:
    return resolve_commit(git, "HEAD") is not None


def find_reason_to_stay(database: Database, tree: str) -> str | None:
    """Find a reason not to switch the branch under somebody's feet; None if nobody else uses the tree."""
    try:
        with database.reading() as tx:
            tasks, workspaces = count_running_tasks(tx, tree), count_workspaces(tx, tree)
    except DeepworkError as error:
        return f"the store could not be asked who else uses it ({error.message.rstrip('.')})"
    if tasks:
        return f"{_count(tasks, 'task')} of plans {'runs' if tasks == 1 else 'run'} in it"
    if workspaces:
        return f"it has {_count(workspaces, 'active workspace')} of plans"
    return None


def count_running_tasks(tx: Transaction, tree: str) -> int:
    """Count the tasks that agents hold or run in this working tree."""
    sql = """
        SELECT count(*)
          FROM plan_tasks
          JOIN plans ON plans.id = plan_tasks.workflow_id
          LEFT JOIN workspaces ON workspaces.id = plan_tasks.workspace_id
         WHERE plans.status IN :open
           AND (plan_tasks.status IN :running OR plan_tasks.status = 'pending' AND claimed_by IS NOT NULL)
           AND (workspaces.path = :tree
                OR workspaces.id IS NULL
                   AND (plans.repository_path IS NULL OR plans.repository_path = :tree))
    """
    return int(tx.fetch_value(sql, open=_OPEN, running=_RUNNING, tree=tree) or 0)


def count_workspaces(tx: Transaction, tree: str) -> int:
    """Count the active workspaces that are this tree, or whose branches belong to the branch of this tree."""
    sql = """
        SELECT count(*)
          FROM workspaces
          JOIN plans ON plans.id = workspaces.workflow_id
         WHERE workspaces.status = :active
           AND plans.status IN :open
           AND :tree IN (workspaces.path, workspaces.repository_path)
    """
    return int(tx.fetch_value(sql, active=WorkspaceStatus.ACTIVE, open=_OPEN, tree=tree) or 0)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
