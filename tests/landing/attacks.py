"""An agent that wants "done" without the work: a model of its acts, and what must hold whatever it does.

The agent has a shell, runs as the same user, and does not edit the store. Between the claim and the landing it
changes files, git's configuration, the environment and time. The invariant: a task that is completed, or landed,
has in a clean tree of exactly that commit green checks as the target defines them.
"""

from __future__ import annotations

import os
import random
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from deepwork.errors import DeepworkError
from landing.make import LandingProject
from workspaces.make import run_git

CHECKS = """\
checks:
  right: {run: [make, -s, check], needs: ["solution.txt"]}
guarded: [GNUmakefile, makefile, Makefile, "guarded/**"]
"""
MAKEFILE = "check:\n\tgrep -qx right solution.txt && test ! -e guarded/skip && grep -qx strict guarded/rule\n"
EVIL_MAKEFILE = "check:\n\ttrue\n"
VANISHING_MAKEFILE = "check:\n\trm -f GNUmakefile\n"


class Attack:
    """One agent on one task, with what it can reach."""

    def __init__(self, project: LandingProject) -> None:
        self.project = project
        for path, text in {
            "Makefile": MAKEFILE,
            "guarded/rule": "strict\n",
            "solution.txt": "none\n",
        }.items():
            project.write(str(project.folder), path, text)
        run_git(project.folder, "add", "-A")
        run_git(project.folder, "commit", "-qm", "rules")
        project.define_checks(CHECKS)
        self.plan = project.plan({"work": None}, checks=["right"])
        self.tree = Path(self.plan.claim("work")["workspace_path"])
        self.branch = self.plan.get_branch("work")
        self.elsewhere = Path(tempfile.mkdtemp(prefix="elsewhere-", dir=project.folder.parent))
        self.path = os.environ["PATH"]
        self.flipper: threading.Event | None = None
        self.broken: list[str] = []

    # --- what an agent does

    def write_wrong(self) -> None:
        self._write("solution.txt", "wrong\n")

    def write_right(self) -> None:
        self._write("solution.txt", "right\n")

    def link_right(self) -> None:
        self._write("solution.txt", None)
        (self.elsewhere / "solution.txt").write_text("right\n")
        (self.tree / "solution.txt").symlink_to(self.elsewhere / "solution.txt")

    def unlink_right(self) -> None:
        (self.elsewhere / "solution.txt").unlink(missing_ok=True)

    def edit_makefile(self) -> None:
        self._write("Makefile", EVIL_MAKEFILE)

    def restore_makefile(self) -> None:
        self._write("Makefile", MAKEFILE)

    def add_vanishing_makefile(self) -> None:
        self._write("GNUmakefile", VANISHING_MAKEFILE)

    def add_first_makefile(self) -> None:
        self._write("GNUmakefile", EVIL_MAKEFILE)

    def remove_first_makefile(self) -> None:
        self._write("GNUmakefile", None)

    def loosen_rule(self) -> None:
        self._write("guarded/rule", "loose\n")

    def restore_rule(self) -> None:
        self._write("guarded/rule", "strict\n")

    def hide_in_excludes(self) -> None:
        exclude = Path(
            run_git(self.tree, "rev-parse", "--path-format=absolute", "--git-path", "info/exclude")
        )
        exclude.parent.mkdir(exist_ok=True)
        exclude.write_text("GNUmakefile\nguarded/*\nsolution.txt\n")

    def hide_by_gitignore(self) -> None:
        self._write("guarded/.gitignore", "*\n")
        self._write(".gitignore", "GNUmakefile\n")

    def pretend_unchanged(self) -> None:
        for flag in ("--assume-unchanged", "--skip-worktree"):
            self._git("update-index", flag, "solution.txt", "Makefile")

    def point_elsewhere(self) -> None:
        """Let git look at another tree, in which everything is right."""
        for name, text in (("Makefile", MAKEFILE), ("solution.txt", "right\n")):
            (self.elsewhere / name).write_text(text)
        self._git("config", "extensions.worktreeConfig", "true")
        self._git("config", "--worktree", "core.worktree", str(self.elsewhere))

    def point_back(self) -> None:
        subprocess.run(
            ["git", "--git-dir", self._git_dir(), "config", "--worktree", "--unset", "core.worktree"],
            cwd=self.tree, check=False, capture_output=True,
        )  # fmt: skip

    def set_hooks(self) -> None:
        self._git("config", "core.fsmonitor", "true")
        self._git("config", "core.ignoreStat", "true")
        self._git("config", "core.trustctime", "false")

    def use_own_make(self) -> None:
        program = self.tree / "bin" / "make"
        program.parent.mkdir(exist_ok=True)
        program.write_text("#!/bin/sh\nexit 0\n")
        program.chmod(0o755)
        os.environ["PATH"] = f"{program.parent}:{self.path}"

    def use_own_make_of_trusted_folder(self) -> None:
        """Put a program into a folder that was already on the PATH, before the real one."""
        folder = Path(self.path.split(":")[0])
        if folder.is_relative_to(self.project.folder.parent):  # a folder of the test
            program = folder / "make"
            program.write_text("#!/bin/sh\nexit 0\n")
            program.chmod(0o755)

    def use_real_make(self) -> None:
        os.environ["PATH"] = self.path

    def set_make_flags(self) -> None:
        os.environ["MAKEFLAGS"] = "-i"

    def commit_all(self) -> None:
        self._git("add", "-A", "-f")
        self._git("commit", "-qm", "work", "--allow-empty")

    def amend(self) -> None:
        self._git("add", "-A", "-f")
        self._git("commit", "-q", "--amend", "--allow-empty", "-m", "amended")

    def go_back(self) -> None:
        self._git("reset", "-q", "--soft", "HEAD~1")

    def set_old_times(self) -> None:
        for name in ("solution.txt", "Makefile"):
            with suppress(OSError):
                os.utime(self.tree / name, (1_000_000_000, 1_000_000_000), follow_symlinks=False)

    def flip_while_checked(self) -> None:
        """Let the solution be right only at times, from another process's view at any moment."""
        if self.flipper is not None:
            return
        self.flipper = over = threading.Event()

        def flip() -> None:
            while not over.wait(0.002):
                for text in ("right\n", "wrong\n"):
                    with suppress(OSError):
                        (self.tree / "solution.txt").write_text(text)
                    time.sleep(0.001)

        threading.Thread(target=flip, daemon=True).start()

    def report(self) -> None:
        if self.is_completed():
            return
        try:
            self.plan.complete("work")
        except DeepworkError:
            return
        if self.flipper is None and not self._is_tree_right(self.tree):
            self.broken.append("completed while the tree did not pass")

    def remove_own_task(self) -> None:
        with suppress(DeepworkError):
            self.project.call("workflow_remove_task", workflow_id=self.plan.id, task_id=self.plan.ids["work"])

    def skip_own_task(self) -> None:
        with suppress(DeepworkError):
            self.project.call("task_update_status", id=self.plan.ids["work"], status="skipped")

    def replan(self) -> None:
        with suppress(DeepworkError):
            self.project.call(
                "workflow_replan", id=self.plan.id, reason="easier",
                new_plan={"summary": "s", "tasks": [{"name": "nothing"}]},
            )  # fmt: skip

    # --- what holds

    def is_completed(self) -> bool:
        return bool(self._get_status() == "completed")

    def find_broken_promises(self) -> Iterator[str]:
        """Land, and yield what is completed or landed without the work."""
        self.stop_flipping()
        yield from self.broken
        if self._get_status() in ("skipped", "removed"):
            yield f"the task is {self._get_status()}, without a person"
        if self.is_completed() and (proven := self._find_proven_tree()) is None:
            yield "completed without saying with which tree"
        elif self.is_completed() and proven is not None and not self._is_right(proven):
            yield "completed with a tree that does not pass"
        with suppress(DeepworkError):
            self.project.land(workflow_id=self.plan.id)
        os.environ["PATH"] = self.path  # the owner's next landing
        with suppress(DeepworkError):
            self.project.land(workflow_id=self.plan.id)
        main = run_git(self.project.folder, "rev-parse", "main")
        if self.project.list_landed() and not self._is_right(main):
            yield "landed on main without the work"

    def stop_flipping(self) -> None:
        if self.flipper is not None:
            self.flipper.set()
            self.flipper = None

    def _get_status(self) -> str:
        try:
            status: str = self.project.call("task_get", id=self.plan.ids["work"])["status"]
        except DeepworkError:
            return "removed"
        return status

    def _find_proven_tree(self) -> str | None:
        """Return the tree with which the task was completed."""
        with self.project.app.database.reading() as tx:
            row = tx.fetch_one("SELECT * FROM plan_tasks WHERE id = :id", id=self.plan.ids["work"])
        assert row is not None
        tree: str | None = row["completed_tree"]
        return tree

    def _is_right(self, commit: str) -> bool:
        """Judge a clean tree of this commit."""
        with tempfile.TemporaryDirectory(dir=self.project.folder.parent) as folder:
            objects = (self.project.folder / ".deepwork" / "snapshots").glob("*/objects")
            environment = {"PATH": self.path, "GIT_ALTERNATE_OBJECT_DIRECTORIES": ":".join(map(str, objects))}
            content = subprocess.run(
                ["git", "archive", commit],
                cwd=self.project.folder, env=environment, check=True, capture_output=True,
            )  # fmt: skip
            subprocess.run(["tar", "-x", "-C", folder], input=content.stdout, check=True)
            return self._is_tree_right(Path(folder))

    def _is_tree_right(self, tree: Path) -> bool:
        """Judge the solution by the rules as they were when the plan began."""
        with tempfile.TemporaryDirectory(dir=self.project.folder.parent) as folder:
            judged = Path(folder)
            (judged / "guarded").mkdir()
            (judged / "guarded" / "rule").write_text("strict\n")
            (judged / "Makefile").write_text(MAKEFILE)
            with suppress(OSError):
                (judged / "solution.txt").write_bytes((tree / "solution.txt").read_bytes())
            done = subprocess.run(
                ["make", "-s", "check"], cwd=folder, env={"PATH": self.path}, check=False, capture_output=True
            )
            return done.returncode == 0

    def _write(self, path: str, text: str | None) -> None:
        place = self.tree / path
        if place.is_symlink() or (text is None and place.exists()):
            place.unlink()
        if text is not None:
            place.parent.mkdir(exist_ok=True)
            place.write_text(text)

    def _git_dir(self) -> str:
        return (self.tree / ".git").read_text().removeprefix("gitdir: ").strip()

    def _git(self, *words: str) -> None:
        """Run git as the agent does: with its own settings, and whether it works or not."""
        environment = {**os.environ, "PATH": self.path}
        subprocess.run(["git", *words], cwd=self.tree, env=environment, check=False, capture_output=True)


ACTS = tuple(
    name
    for name, member in vars(Attack).items()
    if callable(member) and not name.startswith(("_", "is_", "find_", "stop_"))
)
KNOWN_ATTACKS: dict[str, tuple[str, ...]] = {
    "another tree": ("point_elsewhere", "report"),
    "another tree, committed": ("write_wrong", "commit_all", "point_elsewhere", "report", "point_back"),
    "a makefile that vanishes": ("add_vanishing_makefile", "report"),
    "guarded, then restored": ("edit_makefile", "report", "restore_makefile", "report"),
    "changed after completion": ("write_right", "commit_all", "report", "write_wrong", "commit_all"),
    "amended after completion": ("write_right", "commit_all", "report", "write_wrong", "amend"),
    "uncommitted after completion": ("write_right", "report", "write_wrong"),
    "a program of its own": ("use_own_make", "report", "use_real_make"),
    "a program of its own at the landing": ("write_wrong", "commit_all", "use_own_make", "report"),
    "ignored by the repository": (
        "hide_in_excludes",
        "add_first_makefile",
        "report",
        "remove_first_makefile",
    ),
    "ignored by a file": ("hide_by_gitignore", "loosen_rule", "report", "restore_rule"),
    "the task is removed": ("remove_own_task",),
    "the plan is replaced": ("replan",),
    "the task is skipped": ("skip_own_task",),
    "right for a moment": ("flip_while_checked", "report", "report", "report"),
    "a link to the solution": ("link_right", "report", "unlink_right"),
    "pretends that nothing changed": ("write_right", "report", "pretend_unchanged", "write_wrong", "report"),
}


def draw_acts(chance: random.Random) -> tuple[str, ...]:
    """Draw a sequence: pieces of known attacks, single acts, and reports between them."""
    drawn: list[str] = []
    while len(drawn) < 8:
        known = chance.choice([*KNOWN_ATTACKS.values(), *((act,) for act in ACTS)])
        start = chance.randrange(len(known))
        drawn += known[start:]
        if chance.random() < 0.4:
            drawn.append("report")
    return tuple(drawn)


@contextmanager
def own_environment() -> Iterator[None]:
    """Give the environment back as it was."""
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def attack(project: LandingProject, acts: tuple[str, ...]) -> list[str]:
    """Let an agent do these acts, then land; return the promises that broke."""
    with own_environment():
        attacker = Attack(project)
        try:
            for act in acts:
                perform: Callable[[], None] = getattr(attacker, act)
                perform()
            return list(attacker.find_broken_promises())
        finally:
            attacker.stop_flipping()
