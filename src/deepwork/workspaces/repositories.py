"""Which repository something is about: found again however its path is written."""

from __future__ import annotations

from pathlib import Path

from deepwork.database.call import current_call
from deepwork.database.transaction import Transaction
from deepwork.errors import MAX_ECHOED, Code, NotAllowed
from deepwork.workspaces.models import PlaceEvent, Repository
from deepwork.workspaces.places import real_path
from deepwork.workspaces.responses import RepositoryView
from deepwork.workspaces.store import RepositoryStore


class RepositoryDesk:
    """Knows the repositories of this machine."""

    def __init__(self, project_root: Path, host: str) -> None:
        self._project_root = project_root
        self.host = host

    def locate(self, repository_path: str | None) -> str:
        """The path as it really is; without one, that of this project."""
        if repository_path is None:
            return str(self._project_root)
        return real_path("repository_path", repository_path, relative_to=self._project_root)

    def note(self, tx: Transaction, path: str) -> None:
        """A plan is for this repository: know it from now on.

        Only who may register repositories makes others known than that of this project: a plan leads to
        worktrees and diffs there.
        """
        if path != str(self._project_root) and current_call().scope != "admin":
            _require_known(RepositoryStore(tx).find(self.host, path), path)
        if RepositoryStore(tx).add(self.host, path, _default_name(path)):
            self._tell(tx, path)

    def register(self, tx: Transaction, path: str, name: str | None) -> Repository:
        """Know this repository, under this name if one is given."""
        store = RepositoryStore(tx)
        is_new = store.add(self.host, path, name or _default_name(path))
        known = store.find(self.host, path)
        assert known is not None, "it was added, or was there"
        if name is not None and known.name != name:
            store.rename(known, name)
            is_new = True
        return self._tell(tx, path) if is_new else known

    def _tell(self, tx: Transaction, path: str) -> Repository:
        known = RepositoryStore(tx).find(self.host, path)
        assert known is not None, "it is in this very transaction"
        view = RepositoryView.of(known).model_dump(mode="json")
        tx.emit(PlaceEvent.REPOSITORY_REGISTERED, view)
        return known


def _require_known(known: Repository | None, path: str) -> None:
    if known is None:
        raise NotAllowed(
            f"The repository {path[:MAX_ECHOED]!r} is not known here.",
            code=Code.UNAUTHORIZED,
            suggestion="Whoever has the scope admin makes it known with repository_register.",
        )


def _default_name(path: str) -> str:
    return (Path(path).name or path)[:200]
