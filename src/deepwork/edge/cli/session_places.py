"""Opens the application of a job session, which may be in the worktree of a run instead of the project."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from deepwork.edge.cli.framework.applications import open_application
from deepwork.edge.cli.framework.id_resolution import resolve_id
from deepwork.kernel.errors import Code, DeepworkError

if TYPE_CHECKING:
    from pathlib import Path

    from deepwork.edge.server.application import Application


@contextmanager
def open_with_session(
    place: dict[str, Any], session_id: str, *, reads: bool = False, quiet: bool = False
) -> Iterator[tuple[Application, str]]:
    """Open the application of the tree that has the session, on the store of the project.

    Returns it with the id of the session, of which a person may have given the beginning.
    """
    path = place.pop("path")
    with open_application(path, place, reads=reads, needs_session=not reads, quiet=quiet) as app:
        known = resolve_id(app.database, "session", session_id)
        tree = None if _has_session(app, known) else _find_tree_of_run(app, known)
        if tree is None:
            yield app, known
            return
        from deepwork.edge.server.application import Application

        settings = replace(app.settings, project_root=tree, database=app.settings.database_location)
        with closing(Application(settings)) as of_tree:
            yield of_tree, known


def _has_session(app: Application, session_id: str) -> bool:
    try:
        app.sessions.load(session_id)
    except DeepworkError as error:
        return error.code is not Code.SESSION_NOT_FOUND
    return True


def _find_tree_of_run(app: Application, session_id: str) -> Path | None:
    """Return the worktree in which a run of this machine works on the session."""
    from deepwork.delivery.runner.job_steps import locate_place
    from deepwork.delivery.runner.store import RunStore

    with app.database.reading() as tx:
        run = RunStore(tx).find_of_session(session_id)
    tree = locate_place(run).tree if run else None
    return tree if tree is not None and tree.is_dir() else None
