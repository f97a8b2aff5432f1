"""Locating and registering repositories, and resolving paths on this machine."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

from deepwork.kernel.call import current_call
from deepwork.kernel.config import STATE_FOLDER
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.environment import build_child_environment
from deepwork.kernel.errors import MAX_ECHOED, Code, DeepworkError, InvalidInput, NotAllowed
from deepwork.kernel.files.repositories import Head, find_repository
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.refs import find_head, resolve_commit
from deepwork.work.plans.models import Workflow
from deepwork.work.workspaces.models import LOCAL_HOST, Repository, WorkspaceEvent
from deepwork.work.workspaces.responses import RepositoryView
from deepwork.work.workspaces.store import RepositoryStore

log = logging.getLogger("deepwork")

WORKTREES = f"{STATE_FOLDER}/worktrees"
_MAX_NAME_BYTES, _MAX_PATH_LENGTH = 255, 4000


class RepositoryLocator:
    """Locates and registers repositories of this machine."""

    def __init__(self, project_root: Path, host: str) -> None:
        self._project_root = project_root
        self.host = host
        self._clones: set[tuple[str, str]] = set()

    def locate(self, repository_path: str | None) -> str:
        """Return the resolved path; without one, the path of this project."""
        if repository_path is None:
            return str(self._project_root)
        return resolve_path("repository_path", repository_path, relative_to=self._project_root)

    def ensure_known(self, tx: Transaction, path: str) -> None:
        """Register the repository of a new plan, unless it is registered.

        Without the scope admin, only this project's repository can be added this way: a plan gives access to
        worktrees and diffs in its repository.
        """
        if path != str(self._project_root) and current_call().scope != "admin":
            _require_known(RepositoryStore(tx).find(self.host, path), path)
        if RepositoryStore(tx).add(self.host, path, _derive_name(path)):
            self._emit_registered(tx, path)

    def localize(self, tx: Transaction, workflow: Workflow) -> Workflow:
        """Return the plan with the path that its repository has on this machine.

        A path belongs to the machines that registered it. On others this project is meant if it is a clone:
        if it has the commit at which the plan started.
        """
        path, root = workflow.repository_path, str(self._project_root)
        if path in (None, root) or not self._is_clone(tx, str(path), workflow.base_commit):
            return workflow
        return replace(workflow, repository_path=root)

    def _is_clone(self, tx: Transaction, path: str, commit: str | None) -> bool:
        """Return whether this project is a clone of a repository that is on another machine."""
        if commit is None or self.host == LOCAL_HOST or RepositoryStore(tx).find(self.host, path):
            return False
        if (path, commit) not in self._clones:
            if not self._has_commit(commit):
                return False
            self._clones.add((path, commit))
        return True

    def _has_commit(self, commit: str) -> bool:
        if find_repository(self._project_root) is None:
            return False
        try:
            git = Git(self._project_root, environment=build_child_environment())
            return resolve_commit(git, commit) is not None
        except DeepworkError as error:
            log.warning("Cannot look for commit %s in %s: %s", commit, self._project_root, error)
            return False

    def find_head(self, path: str) -> Head | None:
        """Return the commit and branch that the repository is on; None without git or a commit."""
        try:
            return find_head(Git(Path(path), environment=build_child_environment()))
        except DeepworkError as error:
            log.warning("Cannot find the commit of %s: %s", path, error)
            return None

    def register(self, tx: Transaction, path: str, name: str | None) -> Repository:
        """Register the repository and set its name if one is given."""
        store = RepositoryStore(tx)
        is_new = store.add(self.host, path, name or _derive_name(path))
        known = store.find(self.host, path)
        assert known is not None, "it was added or existed before"
        if name is not None and known.name != name:
            store.rename(known, name)
            is_new = True
        return self._emit_registered(tx, path) if is_new else known

    def _emit_registered(self, tx: Transaction, path: str) -> Repository:
        known = RepositoryStore(tx).find(self.host, path)
        assert known is not None, "it was added in this transaction"
        view = RepositoryView.of(known).model_dump(mode="json")
        tx.emit(WorkspaceEvent.REPOSITORY_REGISTERED, view)
        return known


def _require_known(known: Repository | None, path: str) -> None:
    if known is None:
        raise NotAllowed(
            f"Repository {path[:MAX_ECHOED]!r} is not registered here.",
            code=Code.UNAUTHORIZED,
            suggestion="A caller with the scope admin can register it with {tool:repository_register}.",
        )


def _derive_name(path: str) -> str:
    return (Path(path).name or path)[:200]


def resolve_path(field: str, given: str, relative_to: Path | None = None) -> str:
    """Resolve a path that a caller gave in parameter `field`: no links, no dots, absolute.

    Raises InvalidInput for a relative path without `relative_to`, and for paths that cannot exist.
    """
    path = _expand_path(field, given)
    if not path.is_absolute():
        if relative_to is None:
            raise InvalidInput(
                f"`{field}` must be an absolute path; {given[:200]!r} is relative.",
                suggestion="Pass the full path, starting with /.",
            )
        path = relative_to / path
    try:
        real = str(path.resolve())
        if (
            any(len(part) > _MAX_NAME_BYTES for part in real.encode().split(b"/"))
            or len(real) > _MAX_PATH_LENGTH
        ):
            raise InvalidInput(f"`{field}` is too long for a path.", suggestion="Choose a shorter one.")
    except UnicodeEncodeError:
        raise InvalidInput(f"`{field}` resolves to a name that is not UTF-8 and cannot be stored.") from None
    except (OSError, RuntimeError) as error:  # for example a loop of links
        raise InvalidInput(f"`{field}` cannot be resolved: {error}.") from None
    return real


def require_allowed_tree_path(repository: Path, path: Path, *, may_be_beside: bool) -> None:
    """Raise InvalidInput unless a worktree may be created at this path.

    That is in the repository's worktree folder or, for callers who own this machine, beside the repository in
    a folder that begins with its name: git fills the folder with the files of a branch, which would be keys
    in ~/.ssh and programs in ~/.config/autostart. Never in a folder that begins with a dot, and never inside
    another repository.
    """
    is_inside = path.is_relative_to(repository / WORKTREES) and path != repository / WORKTREES
    is_beside = may_be_beside and _is_beside(repository, path)
    if not (is_inside or is_beside) or ".git" in path.parts:
        beside = f" or in ../{repository.name}-NAME/" if may_be_beside else ""
        raise InvalidInput(
            f"No worktree can be created at {str(path)[:MAX_ECHOED]!r}: "
            f"worktrees go into {WORKTREES}/{beside}.",
            code=Code.PATH_OUTSIDE_PROJECT,
            suggestion=f"Choose a path such as {WORKTREES}/NAME.",
        )


def _is_beside(repository: Path, path: Path) -> bool:
    beside = repository.parent
    if not path.is_relative_to(beside):
        return False
    names = path.relative_to(beside).parts
    folders = [folder for folder in path.parents if folder.is_relative_to(beside) and folder != beside]
    return (
        bool(names)
        and names[0].startswith(f"{repository.name}-")
        and not any(name.startswith(".") for name in names)
        and not any((folder / ".git").exists() for folder in folders)
    )


def _expand_path(field: str, given: str) -> Path:
    if not given.strip():
        raise InvalidInput(f"`{field}` is empty.")
    try:
        return Path(given.strip()).expanduser()
    except RuntimeError as error:  # `~user` without such a user
        raise InvalidInput(f"`{field}` cannot be resolved: {error}.") from None
