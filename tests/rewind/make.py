"""Builders for the tests of rewinds: a person who decides, and what a tree holds."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from deepwork.edge.server.application import Application
from deepwork.edge.server.invocation import invoke
from deepwork.kernel.call import Call
from workspaces.make import run_git

PERSON = "human:anna"


def act(app: Application, action: str, caller: str = PERSON, **arguments: Any) -> Any:
    """Call an action of people."""
    return invoke(app.database, app.operations[action], arguments, Call(caller, action))


def rewind(app: Application, task_id: str, **given: Any) -> Any:
    """Rewind a task as a person."""
    return act(app, "rewind_task", task_id=task_id, **given)


def read_tree(folder: Path) -> dict[str, str]:
    """Return everything in a tree but git's own files: contents, links and modes."""
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name == ".git" or name.startswith((".git/", ".deepwork/", "deepwork.db")):
            continue
        if path.is_symlink():
            found[name] = f"-> {os.readlink(path)}"  # noqa: PTH115 - Path would normalize it
        elif path.is_file():
            program = "x " if os.access(path, os.X_OK) else ""
            found[name] = program + path.read_bytes().decode("latin-1")
    return found


def read_state(folder: Path) -> dict[str, Any]:
    """Return the files, the branch and the index of a tree."""
    return {
        "files": read_tree(folder),
        "head": run_git(folder, "rev-parse", "HEAD"),
        "branch": run_git(folder, "branch", "--show-current"),
        "staged": run_git(folder, "ls-files", "--stage"),
        "status": run_git(folder, "status", "--porcelain", "--ignored"),
    }
