"""A plan with many completed tasks, made in one step: rows in one transaction, branches by one `git fast-import`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from application import call_tool
from deepwork.edge.server.application import Application
from deepwork.work.workspaces.models import Workspace, WorkspaceStatus
from deepwork.work.workspaces.store import WorkspaceStore

NOW = 1_800_000_000_000
_WHO = "Ada <ada@example.org> 1800000000 +0000"

Files = Mapping[str, str]


class ManyTasks:
    """A plan whose tasks are completed, each with a branch `deepwork/NAME` that starts from main."""

    def __init__(self, app: Application, folder: Path, tasks: Mapping[str, Files]) -> None:
        self.app, self.folder, self.tasks = app, folder, tasks
        self.id = call_tool(
            app,
            "workflow_create",
            name="Many",
            source_type="prompt",
            source_content="x",
            max_parallel_tasks=9,
        )["id"]
        written = [{"name": name, "depends_on": []} for name in tasks]
        call_tool(app, "workflow_set_plan", id=self.id, plan={"summary": "s", "tasks": written})
        shown = call_tool(app, "workflow_get", id=self.id, include_tasks=True)["tasks"]
        self.ids = {task["name"]: task["id"] for task in shown}
        import_branches(folder, {f"deepwork/{name}": files for name, files in tasks.items()})
        self._complete()

    def _complete(self) -> None:
        host = self.app.repositories.host
        self._read_branches()
        with self.app.database.transaction() as tx:
            tx.update("plans", self.id, {"base_branch": "main"})
            for place, name in enumerate(self.tasks):
                id = f"ws_{self.id[3:11]}{place:04d}"
                made = Workspace(
                    id, self.id, host, str(self.folder), str(self.folder / ".deepwork" / name), f"deepwork/{name}",
                    "main", None, WorkspaceStatus.ACTIVE, None, None, True, "local", NOW, NOW,
                )  # fmt: skip
                assert WorkspaceStore(tx).add(made)
                WorkspaceStore(tx).assign(id, [self.ids[name]])
                self._set_done(tx, name, NOW + place)

    def _read_branches(self) -> None:
        listed = _run(
            self.folder, "for-each-ref", "--format=%(refname) %(objectname) %(tree)", "refs/heads/deepwork"
        )
        self._tips = {name: rest for name, *rest in (line.split() for line in listed.splitlines())}

    def _set_done(self, tx: object, name: str, moment: int) -> None:
        head, tree = self._tips[f"refs/heads/deepwork/{name}"]
        done = {
            "status": "completed", "outcome": f"Did {name}.", "finished_at": moment,
            "completed_tree": tree, "completed_head": head,
        }  # fmt: skip
        tx.update("plan_tasks", self.ids[name], done)  # type: ignore[attr-defined]

    def correct(self, name: str, files: Files) -> None:
        """Merge main into the branch of a task that was reopened, with these files, and complete it again."""
        main = _run(self.folder, "rev-parse", "main")
        import_branches(self.folder, {f"deepwork/{name}": files}, merged=main)
        self._read_branches()
        with self.app.database.transaction() as tx:
            self._set_done(tx, name, NOW + len(self.tasks))


def import_branches(folder: Path, branches: Mapping[str, Files], merged: str = "") -> None:
    """Commit files on branches: on new ones from main, or, with `merged`, as a merge of that commit.

    A file whose content is empty is removed.
    """
    lines: list[str] = []
    for branch, files in branches.items():
        ref = f"refs/heads/{branch}"
        lines += [f"commit {ref}", f"committer {_WHO}", "data 1", "x"]
        lines += [f"from {ref}^0", f"merge {merged}"] if merged else ["from refs/heads/main^0"]
        if merged:  # its files are those of the commit that it merges, and these
            lines += ["deleteall", f'M 040000 {_run(folder, "rev-parse", f"{merged}^{{tree}}")} ""']
        for path, text in files.items():
            lines += [f"M 100644 inline {path}", f"data {len(text)}", text] if text else [f"D {path}"]
        lines.append("")
    _run(folder, "fast-import", "--quiet", "--force", given="\n".join(lines) + "\n")


def _run(folder: Path, *words: str, given: str = "") -> str:
    quiet = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    done = subprocess.run(
        ["git", *words], cwd=folder, input=given, env=quiet, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()
