"""Whatever a person has in a tree, staged, unstaged, untracked or ignored, is never lost by a rewind."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from deepwork.edge.server.application import Application
from deepwork.kernel.errors import NotAllowed
from rewind.make import act, read_state, rewind
from rewind.test_shared_trees import SharedWork
from workspaces.make import Plan, run_git

_NAMES = ("a.txt", "b.txt", "folder/c.txt", "folder", "d e.txt", "cache/x.log", "ü.txt")
_TEXTS = ("one\n", "two\n", "", "no end", "a\r\nb\n", "\0binary\xff")


def edit(draw: random.Random, tree: Path) -> None:
    """Do something that a person may do to a file."""
    path = tree / draw.choice(_NAMES)
    what = draw.choice(("write", "write", "write", "delete", "stage", "link", "program", "commit"))
    if what in ("stage", "commit"):
        run_git(tree, "add", "-A")
        if what == "commit":
            run_git(tree, "commit", "-qm", "edit", "--allow-empty")
        return
    if path.parent.is_file() or path.parent.is_symlink() or (path.is_dir() and not path.is_symlink()):
        return
    if what == "delete" or path.is_symlink():
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(exist_ok=True)
    if what == "link":
        path.unlink(missing_ok=True)
        path.symlink_to(draw.choice(("a.txt", "nowhere", "..")))
        return
    path.write_bytes(draw.choice(_TEXTS).encode("latin-1"))
    path.chmod(0o755 if what == "program" else 0o644)


def list_stored(project: Path) -> set[str]:
    """List all versions of files that commits of any branch have."""
    listed = run_git(project, "rev-list", "--objects", "--all")
    return {line.split(" ")[0] for line in listed.splitlines()}


def hash_of(project: Path, text: str) -> str:
    done = subprocess.run(
        ["git", "hash-object", "--stdin"],
        cwd=project,
        input=text.removeprefix("x ").encode("latin-1"),
        capture_output=True,
        check=True,
    )
    return done.stdout.decode().strip()


@pytest.mark.parametrize("seed", range(6))
def test_no_edit_is_ever_lost(app: Application, project: Path, seed: int) -> None:
    draw = random.Random(seed)
    (project / ".gitignore").write_text("/.deepwork/\n/deepwork.db*\n*.log\n")
    run_git(project, "commit", "-qam", "ignore")
    if draw.random() < 0.5:
        plan = Plan(app, {"api": []})
        tree, task = Path(plan.claim("api")["workspace_path"]), plan.ids["api"]
    else:
        work = SharedWork(app, "api")
        for _ in range(3):
            edit(draw, project)
        work.claim("api")
        tree, task = project, work.ids["api"]
    for _ in range(draw.randint(1, 12)):
        edit(draw, tree)
    before = read_state(tree)
    ignored = {name: text for name, text in before["files"].items() if name.endswith(".log")}

    try:
        done = rewind(app, task)
    except NotAllowed:
        assert read_state(tree) == before
        return

    after = read_state(tree)["files"]
    stored = list_stored(project)
    for name, text in before["files"].items():
        is_link = text.startswith("-> ")
        assert after.get(name) == text or is_link or hash_of(project, text) in stored, name
    assert {name: after[name] for name in ignored} == ignored
    act(app, "undo_rewind", rewind_id=done["id"])
    assert read_state(tree) == before
